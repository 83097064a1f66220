"""Django settings; the first block reads every environment variable. docs/settings.md documents them."""

from pathlib import Path
from urllib.parse import urlsplit

import django_stubs_ext
from django.http.request import split_domain_port

from operations import key_file, log_config
from operations.postgres import server
from pdpp_site import env as environment

django_stubs_ext.monkeypatch()  # allows ModelAdmin[Grant] at run time
BASE_DIR = Path(__file__).resolve().parent.parent
# An installed package keeps no records beside its code.
HOME = BASE_DIR if (BASE_DIR / "manage.py").is_file() else Path.cwd()
env = environment.Environment()

# --- the environment ---------------------------------------------------------------------------
DATABASE_URL = env.string("DATABASE_URL")
PDPP_VAR = Path(env.string("PDPP_VAR", default=str(HOME / "var"))).resolve()
PDPP_PORT = env.integer("PDPP_PORT", default=8000, min_value=1, max_value=65_535)
PDPP_BIND = env.string("PDPP_BIND", default="127.0.0.1")
PDPP_PUBLIC_URL = env.url("PDPP_PUBLIC_URL", default=f"http://127.0.0.1:{PDPP_PORT}")
PDPP_ALLOWED_HOSTS = env.string_list("PDPP_ALLOWED_HOSTS")
PDPP_BROWSER_ORIGINS = env.string_list("PDPP_BROWSER_ORIGINS")
PDPP_TRUSTED_PROXIES = env.networks("PDPP_TRUSTED_PROXIES", default=["127.0.0.1", "::1"])
PDPP_PROXY_USER_PEERS = env.networks("PDPP_PROXY_USER_PEERS", default=[])
PDPP_PROXY_USER_HEADER = env.header_name("PDPP_PROXY_USER_HEADER", peers=PDPP_PROXY_USER_PEERS)
PDPP_SECRET_KEY = env.string("PDPP_SECRET_KEY")
PDPP_SECRET_KEY_FALLBACKS = env.string_list("PDPP_SECRET_KEY_FALLBACKS")
PDPP_DATABASE_POOL = env.integer("PDPP_DATABASE_POOL", default=16)
PDPP_PGBOUNCER = env.boolean("PDPP_PGBOUNCER", default=False)
PDPP_DEMO = env.boolean("PDPP_DEMO", default=True)
PDPP_BACKGROUND = env.boolean("PDPP_BACKGROUND", default=True)
PDPP_STATEMENT_TIMEOUT = env.integer("PDPP_STATEMENT_TIMEOUT", default=10, max_value=3600)
PDPP_THREADS = env.integer("PDPP_THREADS", default=8, min_value=1)
PDPP_CONNECTIONS = env.integer("PDPP_CONNECTIONS", default=1000, min_value=10)
PDPP_CLIENT_CONNECTIONS = env.integer("PDPP_CLIENT_CONNECTIONS", default=100, min_value=1)
PDPP_SHUTDOWN_SECONDS = env.integer("PDPP_SHUTDOWN_SECONDS", default=30)
PDPP_CHANGES_DAYS = env.integer("PDPP_CHANGES_DAYS", default=90)
PDPP_INTROSPECTION_SECRET = env.string("PDPP_INTROSPECTION_SECRET")
PDPP_EMBEDDER = env.string("PDPP_EMBEDDER", default="none")
PDPP_CLIENT_DOCUMENTS = env.boolean("PDPP_CLIENT_DOCUMENTS", default=True)
PDPP_LOCAL_RECEIVERS = env.boolean("PDPP_LOCAL_RECEIVERS", default=False)
PDPP_LEDGER_FOLDER = env.string("PDPP_LEDGER_FOLDER")
PDPP_WATCH = env.string("PDPP_WATCH")
PDPP_WATCH_SECONDS = env.integer("PDPP_WATCH_SECONDS", default=300, min_value=1)
PDPP_LOG_LEVEL = env.choice("PDPP_LOG_LEVEL", log_config.LEVELS, default="INFO")
PDPP_LOG_FORMAT = env.choice("PDPP_LOG_FORMAT", log_config.FORMATTERS, default="text")
PDPP_TRIPWIRE_SHARE = env.integer("PDPP_TRIPWIRE_SHARE", default=50)
PDPP_TRIPWIRE_HOURS = env.integer("PDPP_TRIPWIRE_HOURS", default=24)
PDPP_TRIPWIRE_RECORDS = env.integer("PDPP_TRIPWIRE_RECORDS", default=1000)
DEBUG = env.boolean("PDPP_DEBUG", default=False)

# --- modes -------------------------------------------------------------------------------------
# Without DATABASE_URL, the server starts an embedded PostgreSQL and creates its own keys.
EMBEDDED = not DATABASE_URL
HTTPS = PDPP_PUBLIC_URL.startswith("https://")  # restricts cookies and redirects to TLS

SECRET_KEY = PDPP_SECRET_KEY or key_file.installation_key(PDPP_VAR, embedded=EMBEDDED)
SECRET_KEY_FALLBACKS = key_file.previous_secrets(PDPP_VAR, given=PDPP_SECRET_KEY_FALLBACKS)
PDPP_ROTATED_KEYS = key_file.rotated_keys(PDPP_VAR)
_PUBLIC_HOST = split_domain_port(urlsplit(PDPP_PUBLIC_URL).netloc)[0]
ALLOWED_HOSTS = [
    *dict.fromkeys([_PUBLIC_HOST, *PDPP_ALLOWED_HOSTS, "127.0.0.1", "localhost", "[::1]"])
]
CSRF_TRUSTED_ORIGINS = [PDPP_PUBLIC_URL, *([] if HTTPS else [f"http://localhost:{PDPP_PORT}"])]

# --- composition -------------------------------------------------------------------------------
ROOT_URLCONF = "pdpp_site.urls"
INSTALLED_APPS = [
    "pdpp_site",
    "owner",
    "owner.oauth",
    "owner.records",
    "operations",
    "operations.backup",
    "operations.notifications",
    "importers",
    "evidence",
    "oauth2_provider",
    "rest_framework",
    "django_otp",
    "django_otp.plugins.otp_static",
    "django_otp.plugins.otp_totp",
    "drf_spectacular_sidecar",
    # Simple, because owner.admin registers its models with its own site.
    "django.contrib.admin.apps.SimpleAdminConfig",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "django.contrib.postgres",
    "django.contrib.sessions",
    "django.contrib.staticfiles",
]
MIDDLEWARE = [
    "pdpp_site.security_headers.middleware",
    "pdpp_site.security_headers.allow_browser_apps",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "pdpp_site.request_bodies.RequestTextMiddleware",
    "django.middleware.common.CommonMiddleware",
    "pdpp_site.request_bodies.answer_api",  # what follows concerns pages
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "owner.accounts.proxy_sign_in.ProxySignInMiddleware",
    "django_otp.middleware.OTPMiddleware",
    "owner.permissions.act_for_signed_in_owner",
    "owner.preferences.middleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "pdpp_site.views.explain_wrong_method",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "owner.connected_apps.unseen_alerts",
            ]
        },
    }
]

DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

# --- database ----------------------------------------------------------------------------------
DATABASES = {
    "default": environment.database_settings(DATABASE_URL or server.url(PDPP_VAR / "postgres"))
}
DATABASES["default"]["ENGINE"] = "django.db.backends.postgresql"
DATABASES["default"]["DISABLE_SERVER_SIDE_CURSORS"] = PDPP_PGBOUNCER
_OPTIONS = DATABASES["default"].setdefault("OPTIONS", {})
_OPTIONS["prepare_threshold"] = None if PDPP_PGBOUNCER else 0  # PgBouncer mixes connections
if PDPP_DATABASE_POOL and not PDPP_PGBOUNCER:
    _OPTIONS["pool"] = {"min_size": 1, "max_size": PDPP_DATABASE_POOL, "timeout": 10}

# --- accounts, pages, language -----------------------------------------------------------------
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}", "OPTIONS": options}
    for name, options in {
        "UserAttributeSimilarityValidator": {},
        "MinimumLengthValidator": {"min_length": 12},
        "CommonPasswordValidator": {},
        "NumericPasswordValidator": {},
    }.items()
]
AUTHENTICATION_BACKENDS = [
    "django.contrib.auth.backends.ModelBackend", "owner.accounts.proxy_sign_in.ProxyBackend"
]  # fmt: skip
LOGIN_URL = "login"
OTP_TOTP_ISSUER = "PDPP"
OTP_TOTP_THROTTLE_FACTOR = OTP_STATIC_THROTTLE_FACTOR = 0  # see owner.accounts.sign_in_throttle
USE_I18N = False
TIME_ZONE = "UTC"
STATIC_URL = "/static/"
# Static files are served from the packages, without collectstatic.
WHITENOISE_USE_FINDERS = True
WHITENOISE_ALLOW_ALL_ORIGINS = False

# --- security ----------------------------------------------------------------------------------
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = HTTPS
SESSION_COOKIE_NAME = "__Host-session" if HTTPS else "pdpp-session"
CSRF_COOKIE_NAME = "__Host-csrf" if HTTPS else "pdpp-csrf"
SESSION_ENGINE = "operations.session_store"
SESSION_COOKIE_AGE = 7 * 24 * 3600
SECURE_SSL_REDIRECT = HTTPS
SECURE_HSTS_SECONDS = 365 * 24 * 3600 if HTTPS else 0
CSRF_FAILURE_VIEW = "pdpp_site.views.csrf_failure"
# Our access tokens do not refer to refresh tokens (W011). HSTS for subdomains and preload concern
# the owner's whole domain, so they are not set (W005, W021).
SILENCED_SYSTEM_CHECKS = ["security.W005", "security.W021", "oauth2_provider.W011"]
# Limit of the owner's largest form (pdpp_site.request_bodies). Uploads are streamed.
DATA_UPLOAD_MAX_MEMORY_SIZE = 2 * 1024 * 1024
# The grant form has a checkbox for each field of each stream of each source.
DATA_UPLOAD_MAX_NUMBER_FIELDS = 10_000

REST_FRAMEWORK: dict[str, object] = {
    "DEFAULT_AUTHENTICATION_CLASSES": [],
    "DEFAULT_PERMISSION_CLASSES": [],
    "UNAUTHENTICATED_USER": None,
    "URL_FORMAT_OVERRIDE": None,  # `format` is an unknown parameter
}

# --- OAuth (owner.oauth): django-oauth-toolkit over our own tables -----------------------------
OAUTH2_PROVIDER_APPLICATION_MODEL = "oauth.Registration"
OAUTH2_PROVIDER_GRANT_MODEL = "oauth.AuthorizationCode"
OAUTH2_PROVIDER_DEVICE_GRANT_MODEL = "oauth.PendingRequest"
OAUTH2_PROVIDER_REFRESH_TOKEN_MODEL = "oauth.RefreshToken"  # noqa: S105 the name of a model
OAUTH2_PROVIDER_ACCESS_TOKEN_MODEL = OAUTH2_PROVIDER_ID_TOKEN_MODEL = "evidence.AccessToken"  # noqa: S105
MIGRATION_MODULES = {"oauth2_provider": None}  # its models are replaced by ours
_RFC_9700 = (
    "ACCESS_TOKEN_TRANSPORT",
    "AUTHZ_RESPONSE_ISS",
    "IMPLICIT_GRANT",
    "PASSWORD_GRANT",
    "PKCE_METHOD",
    "PKCE_REQUIRED",
    "REDIRECT_URI_MATCHING",
    "REDIRECT_URI_SCHEME",
    "REFRESH_TOKEN",
    "TOKEN_STORAGE",
)
"""The library's switches for the security best practices of RFC 9700."""

OAUTH2_PROVIDER = {
    **{f"COMPLIANT_BCP_RFC9700_{rule}": True for rule in _RFC_9700},
    # owner.oauth.responses allows loopback and private-use schemes.
    "ALLOWED_REDIRECT_URI_SCHEMES": ["https"],
    "REFRESH_TOKEN_REUSE_PROTECTION": True,
}

# --- logging (no bodies, queries, tokens or record names) --------------------------------------
LOGGING = log_config.logging_settings(level=PDPP_LOG_LEVEL, debug=DEBUG, log_format=PDPP_LOG_FORMAT)
