"""URLs of the owner's pages and of the authorization server."""

from django.conf import settings
from django.urls import path
from django.views.generic import RedirectView, TemplateView

from owner import admin as admin  # registers the admin pages
from owner.accounts.setup import set_up
from owner.accounts.sign_in import (
    add_passkey,
    change_password,
    confirm,
    passkey_options,
    remove_passkey,
    second_factor_check,
    second_factor_page,
    sign_in,
    sign_out,
)
from owner.activity.activity_page import activity_page, export, reading_page
from owner.activity.refused_page import refused_page
from owner.backups import (
    backups_page,
    drill_page,
    recovery_key_page,
    schedule_page,
)
from owner.connected_apps import acknowledge_alert, app_action, connect, connected_apps, doctor
from owner.connections_page import (
    collectors_page,
    connection_page,
    connections_page,
    keep,
    revoke_collector_page,
    storage_page,
)
from owner.grants import grant_pages
from owner.grants.give_access_page import give_access, narrow_page, permission_page
from owner.home_page import remove_demo_data
from owner.household import owners_page, remove_owner
from owner.imports import add_slice, answer_question, look, report, send
from owner.live_accounts import (
    account_choices,
    account_list,
    account_page,
    connect_account,
    sign_in_again,
    sign_in_form,
    signed_in,
)
from owner.notifications_page import add_channel, notifications_page
from owner.oauth.authorization_endpoint import authorize, push
from owner.oauth.device_flow import agent_connect, device, device_authorization, poll_token
from owner.oauth.endpoints import authorization_server, introspect, register, revoke, token
from owner.permissions import owner_required
from owner.preferences import preferences
from owner.records.browse_page import record_list
from owner.records.day_page import day_page, today_page
from owner.records.erasure_pages import ask, receipts_page, watch
from owner.records.people_pages import merge_people, people_page, person_page, separate_identity
from owner.records.record_files import export_records, mail_file, record_file, record_html
from owner.records.record_page import record_page, who_can_see
from owner.records.search_page import export_search, search_page

to_password = owner_required(RedirectView.as_view(pattern_name="password"))

urlpatterns = [
    path(".well-known/oauth-authorization-server", authorization_server),
    path("set-up/<str:token>/", set_up, name="set-up"),
    path("login", sign_in, name="login"),
    path("logout", sign_out, name="sign-out"),
    path("password", change_password, name="password"),
    # The links of Django's admin lead to the same pages.
    path("admin/logout/", sign_out),
    path("admin/password_change/", to_password),
    path("admin/password_change/done/", to_password),
    path("login/second", second_factor_check, name="second-factor"),
    path("login/confirm", confirm, name="confirm"),
    path("second-factor", second_factor_page, name="second-factor-settings"),
    path("login/passkeys/add", add_passkey, name="passkey-add"),
    path("login/passkeys/remove", remove_passkey, name="passkey-remove"),
    path("login/passkeys/options/<str:purpose>", passkey_options, name="passkey-options"),
    path("oauth/authorize", authorize, name="authorize"),
    path("oauth/token", token),
    path("oauth/revoke", revoke),
    path("oauth/register", register),
    path("oauth/par", push),
    path("oauth/device_authorization", device_authorization),
    path("device", device, name="device"),
    path("introspect", introspect),
    path("agent-connect", agent_connect),
    path("agent-connect/<str:attempt_id>/token", poll_token),
    # Default endpoints of the MCP revision 2025-03-26, for clients that read no metadata.
    path("authorize", authorize),
    path("token", token),
    path("register", register),
    path("connect", connect, name="connect"),
    path("connect/doctor", doctor, name="connect-doctor"),
    path("imports", send, name="imports"),
    path("imports/slice", add_slice, name="import-slice"),
    path("imports/upload/<str:upload_id>", look, name="import-upload"),
    path("imports/waiting/<str:waiting_id>", answer_question, name="import-waiting"),
    path("imports/<str:run_id>", report, name="import-report"),
    path("connections", connections_page, name="connections"),
    path("connections/<str:connection_id>", connection_page, name="connection"),
    path("collectors", collectors_page, name="collectors"),
    path("collectors/<str:collector_id>/revoke", revoke_collector_page, name="collector-revoke"),
    path("accounts", account_list, name="accounts"),
    path("accounts/connect/<str:name>", connect_account, name="account-connect"),
    path("accounts/connect/<str:name>/<str:provider>", sign_in_form, name="account-sign-in"),
    path("accounts/signed-in", signed_in, name="account-signed-in"),
    path("accounts/<str:connection_id>/sign-in", sign_in_again, name="account-sign-in-again"),
    path("accounts/<str:connection_id>", account_page, name="account"),
    path("accounts/<str:connection_id>/choices", account_choices, name="account-choices"),
    path("notifications", notifications_page, name="notifications"),
    path("notifications/add/<str:transport>", add_channel, name="notification-add"),
    path("settings", preferences, name="preferences"),
    path("backups", backups_page, name="backups"),
    path("backups/key", recovery_key_page, name="backup-key"),
    path("backups/schedule", schedule_page, name="backup-schedule"),
    path("backups/<int:number>/drill", drill_page, name="backup-drill"),
    path("storage", storage_page, name="storage"),
    path("owners", owners_page, name="owners"),
    path("owners/<str:owner_id>/remove", remove_owner, name="owner-remove"),
    path("demo/remove", remove_demo_data, name="remove-demo"),
    path("activity", activity_page, name="activity"),
    path("activity/reading", reading_page, name="activity-reading"),
    path("activity/refused", refused_page, name="refused-calls"),
    path("activity/export.<str:name>", export, name="activity-export"),
    path("search", search_page, name="search"),
    path("search/export", export_search, name="search-export"),
    path("day", today_page, name="today"),
    path("day/<str:day>", day_page, name="day"),
    path("people", people_page, name="people"),
    path("people/<str:person>", person_page, name="person"),
    path("people/<str:person>/merge", merge_people, name="person-merge"),
    path("people/<str:person>/separate", separate_identity, name="person-separate"),
    path("records/<str:connection_id>/<str:stream>/", record_list, name="record-list"),
    path("records/<str:connection_id>/<str:stream>/<path:record_key>", record_page, name="record"),
    path("who", who_can_see, name="who-can-see"),
    path("retention", keep, name="retention"),
    path("erase", ask, name="erase"),
    path("erasures", receipts_page, name="erasures"),
    path("erasures/<str:erasure_id>", watch, name="erasure"),
    path("export/<str:connection_id>/<str:stream>", export_records, name="record-export"),
    path("mail/<str:connection_id>/<str:stream>", mail_file, name="mail-file"),
    path("html/<str:connection_id>/<str:stream>", record_html, name="record-html"),
    path("files/<str:connection_id>/<path:blob_id>", record_file, name="record-file"),
    path("ask/<str:token>", permission_page, name="permission-request"),
    path("connected", connected_apps, name="connected-apps"),
    path("connected/seen", acknowledge_alert, name="alert-acknowledge"),
    path("connected/give", give_access, name="give-access"),
    path("connected/narrow", narrow_page, name="grant-narrow"),
    path("grants/<str:grant_id>", grant_pages.grant_page, name="grant"),
    path("grants/<str:grant_id>/limits", grant_pages.change_limits, name="grant-limits"),
    path("grants/<str:grant_id>/revoke", grant_pages.revoke, name="grant-revoke"),
    path("grants/<str:grant_id>/token", grant_pages.add_token, name="grant-token"),
    path("tokens", grant_pages.list_tokens, name="tokens"),
    path("tokens/<str:token_id>/revoke", grant_pages.revoke_token, name="token-revoke"),
    path("connected/pause", app_action, {"name": "pause"}, name="app-pause"),
    path("connected/resume", app_action, {"name": "resume"}, name="app-resume"),
    path("connected/end", app_action, {"name": "disconnect"}, name="app-disconnect"),
]
if settings.DEBUG:
    guide = TemplateView.as_view(template_name="owner/styleguide.html")
    urlpatterns.append(path("styleguide", owner_required(guide)))
