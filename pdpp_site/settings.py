"""Django's settings: every variable is read in the first block, and README.md documents each."""

from pathlib import Path
from urllib.parse import urlsplit

import django_stubs_ext
from django.http.request import split_domain_port

from operations import key_file, log_config
from operations.postgres import server
from pdpp_site import env as environment
from pdpp_site import oauth_library

# Lets ModelAdmin[Grant] and the like be written as the types have it.
django_stubs_ext.monkeypatch()

BASE_DIR = Path(__file__).resolve().parent.parent
env = environment.Environment()

# --- the environment ---------------------------------------------------------------------------
DATABASE_URL = env.text("DATABASE_URL")
PDPP_VAR = Path(env.text("PDPP_VAR", default=str(BASE_DIR / "var"))).resolve()
PDPP_PORT = env.whole("PDPP_PORT", default=8000, least=1, most=65_535)
PDPP_BIND = env.text("PDPP_BIND", default="127.0.0.1")
PDPP_PUBLIC_URL = env.address("PDPP_PUBLIC_URL", default=f"http://127.0.0.1:{PDPP_PORT}")
PDPP_ALLOWED_HOSTS = env.names("PDPP_ALLOWED_HOSTS")
PDPP_TRUSTED_PROXIES = env.networks("PDPP_TRUSTED_PROXIES", default=["127.0.0.1", "::1"])
PDPP_SECRET_KEY = env.text("PDPP_SECRET_KEY")
PDPP_SECRET_KEY_FALLBACKS = env.names("PDPP_SECRET_KEY_FALLBACKS")
PDPP_DATABASE_POOL = env.whole("PDPP_DATABASE_POOL", default=16)
PDPP_PGBOUNCER = env.switch("PDPP_PGBOUNCER", default=False)
PDPP_DEMO = env.switch("PDPP_DEMO", default=True)
PDPP_BACKGROUND = env.switch("PDPP_BACKGROUND", default=True)
PDPP_STATEMENT_TIMEOUT = env.whole("PDPP_STATEMENT_TIMEOUT", default=10, most=3600)
PDPP_THREADS = env.whole("PDPP_THREADS", default=8, least=1)
PDPP_CONNECTIONS = env.whole("PDPP_CONNECTIONS", default=1000, least=10)
PDPP_CLIENT_CONNECTIONS = env.whole("PDPP_CLIENT_CONNECTIONS", default=100, least=1)
PDPP_SHUTDOWN_SECONDS = env.whole("PDPP_SHUTDOWN_SECONDS", default=30)
PDPP_CHANGES_DAYS = env.whole("PDPP_CHANGES_DAYS", default=90)
PDPP_INTROSPECTION_SECRET = env.text("PDPP_INTROSPECTION_SECRET")
PDPP_EMBEDDER = env.text("PDPP_EMBEDDER", default="evidence.search.embedding.WordLlama")
PDPP_CLIENT_DOCUMENTS = env.switch("PDPP_CLIENT_DOCUMENTS", default=True)
PDPP_LOCAL_RECEIVERS = env.switch("PDPP_LOCAL_RECEIVERS", default=False)
PDPP_WATCH = env.text("PDPP_WATCH")
PDPP_WATCH_SECONDS = env.whole("PDPP_WATCH_SECONDS", default=300, least=1)
PDPP_LOG_LEVEL = env.one_of("PDPP_LOG_LEVEL", log_config.LEVELS, default="INFO")
PDPP_LOG_FORMAT = env.one_of("PDPP_LOG_FORMAT", log_config.FORMATTERS, default="text")
PDPP_TRIPWIRE_SHARE = env.whole("PDPP_TRIPWIRE_SHARE", default=50)
PDPP_TRIPWIRE_HOURS = env.whole("PDPP_TRIPWIRE_HOURS", default=24)
PDPP_TRIPWIRE_RECORDS = env.whole("PDPP_TRIPWIRE_RECORDS", default=1000)
PDPP_MAIL_URL = env.text("PDPP_MAIL_URL")
PDPP_MAIL_TO = env.text("PDPP_MAIL_TO")
PDPP_METRICS_TOKEN = env.text("PDPP_METRICS_TOKEN")
PDPP_TELEMETRY = env.text("PDPP_TELEMETRY")
PDPP_DEBUG = env.switch("PDPP_DEBUG", default=False)

# --- modes -------------------------------------------------------------------------------------
# Without a DATABASE_URL this is somebody's own machine: an embedded server, and keys made once.
EMBEDDED = not DATABASE_URL
# Behind TLS everything that can be pinned to TLS is.
HTTPS = PDPP_PUBLIC_URL.startswith("https://")

DEBUG = PDPP_DEBUG
SECRET_KEY = PDPP_SECRET_KEY or key_file.installation_key(PDPP_VAR, embedded=EMBEDDED)
SECRET_KEY_FALLBACKS = key_file.earlier_secrets(PDPP_VAR, given=PDPP_SECRET_KEY_FALLBACKS)
PDPP_ROTATED_KEYS = key_file.rotated(PDPP_VAR)
_PUBLIC_HOST = split_domain_port(urlsplit(PDPP_PUBLIC_URL).netloc)[0]
ALLOWED_HOSTS = [
    *dict.fromkeys([_PUBLIC_HOST, *PDPP_ALLOWED_HOSTS, "127.0.0.1", "localhost", "[::1]"])
]
CSRF_TRUSTED_ORIGINS = [PDPP_PUBLIC_URL, *([] if HTTPS else [f"http://localhost:{PDPP_PORT}"])]

# --- composition -------------------------------------------------------------------------------
ROOT_URLCONF = "pdpp_site.urls"
WSGI_APPLICATION = "pdpp_site.wsgi.application"
ASGI_APPLICATION = "pdpp_site.asgi.application"
INSTALLED_APPS = [
    "pdpp_site",
    "owner",
    "operations",
    "evidence",
    "mcp_adapter",
    "oauth2_provider",
    "procrastinate.contrib.django",
    "rest_framework",
    "django_otp",
    "django_otp.plugins.otp_static",
    "django_otp.plugins.otp_totp",
    "drf_spectacular_sidecar",
    # Simple: nothing is registered with it but what owner.admin registers with its own site.
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
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "pdpp_site.request_text.RequestTextMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django_otp.middleware.OTPMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
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
                "owner.connected_apps.standing",
            ]
        },
    }
]

# --- database ----------------------------------------------------------------------------------
DATABASES = {"default": environment.database(DATABASE_URL or server.url(PDPP_VAR / "postgres"))}
DATABASES["default"]["ENGINE"] = "django.db.backends.postgresql"
DATABASES["default"]["DISABLE_SERVER_SIDE_CURSORS"] = PDPP_PGBOUNCER
_OPTIONS = DATABASES["default"].setdefault("OPTIONS", {})
# PgBouncer may hand a prepared statement to another server. Elsewhere the first use prepares it.
_OPTIONS["prepare_threshold"] = None if PDPP_PGBOUNCER else 0
if PDPP_DATABASE_POOL and not PDPP_PGBOUNCER:
    _OPTIONS["pool"] = {"min_size": 1, "max_size": PDPP_DATABASE_POOL, "timeout": 10}
if not PDPP_PGBOUNCER:
    _OPTIONS.setdefault("options", "-c plan_cache_mode=force_generic_plan")  # access.statements

# --- accounts, pages, language -----------------------------------------------------------------
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in (
        "UserAttributeSimilarityValidator",
        "MinimumLengthValidator",
        "CommonPasswordValidator",
        "NumericPasswordValidator",
    )
]
LOGIN_URL = "login"
OTP_TOTP_ISSUER = "PDPP"
# How often one may try is counted by evidence.access.sign_in_throttle, for every step of signing in alike.
OTP_TOTP_THROTTLE_FACTOR = OTP_STATIC_THROTTLE_FACTOR = 0
LANGUAGE_CODE = "en-us"
USE_I18N = False
TIME_ZONE = "UTC"
USE_TZ = True
STATIC_URL = "/static/"
# The few static files are those of the admin; served from the packages, nothing to collect.
WHITENOISE_USE_FINDERS = True
WHITENOISE_ALLOW_ALL_ORIGINS = False

# --- mail: only to the owner, and only where somebody has said through which server ---------------
globals().update(environment.mail_server(PDPP_MAIL_URL))
EMAIL_TIMEOUT = 10

# --- security ----------------------------------------------------------------------------------
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = HTTPS
SESSION_COOKIE_NAME = "__Host-session" if HTTPS else "pdpp-session"
CSRF_COOKIE_NAME = "__Host-csrf" if HTTPS else "pdpp-csrf"
SESSION_ENGINE = "operations.session_store"
SESSION_COOKIE_AGE = 7 * 24 * 3600
SECURE_SSL_REDIRECT = HTTPS
SECURE_HSTS_SECONDS = 365 * 24 * 3600 if HTTPS else 0
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
CSRF_FAILURE_VIEW = "pdpp_site.error_pages.forged"
# Neighbouring subdomains of the owner's domain, and the browsers' preload list, are not ours.
SILENCED_SYSTEM_CHECKS = ["security.W005", "security.W021"]
# The largest form, for the signed-in owner alone (pdpp_site.request_bodies). Uploads are streams.
DATA_UPLOAD_MAX_MEMORY_SIZE = 2 * 1024 * 1024
# The page on which a grant is given has a box for each field of each stream of each source.
DATA_UPLOAD_MAX_NUMBER_FIELDS = 10_000

REST_FRAMEWORK: dict[str, object] = {
    "DEFAULT_AUTHENTICATION_CLASSES": [],
    "DEFAULT_PERMISSION_CLASSES": [],
    "UNAUTHENTICATED_USER": None,
    "URL_FORMAT_OVERRIDE": None,  # ``format`` is a parameter that nobody knows, as any other
}

# --- signing in (owner.oauth): the library's protocol over our own rows ---------
OAUTH2_PROVIDER_APPLICATION_MODEL = "evidence.Registration"
OAUTH2_PROVIDER_GRANT_MODEL = "evidence.AuthorizationCode"
OAUTH2_PROVIDER_DEVICE_GRANT_MODEL = "evidence.PendingRequest"
OAUTH2_PROVIDER_REFRESH_TOKEN_MODEL = "evidence.RefreshToken"  # noqa: S105 the name of a model
OAUTH2_PROVIDER_ACCESS_TOKEN_MODEL = OAUTH2_PROVIDER_ID_TOKEN_MODEL = "evidence.AccessToken"  # noqa: S105
MIGRATION_MODULES = {"oauth2_provider": None}  # it has no tables of its own left
OAUTH2_PROVIDER = oauth_library.SETTINGS

# --- the queue of events on their way (evidence.events) -------------------------------------------
PROCRASTINATE_IMPORT_PATHS = ["evidence.events.tasks"]

# --- logging: no bodies, queries, tokens or names of records --------------------------------------
LOGGING = log_config.configuration(level=PDPP_LOG_LEVEL, debug=DEBUG, form=PDPP_LOG_FORMAT)
