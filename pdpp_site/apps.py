"""The site as an installed app, so that it can hold the commands that compose everything."""

from django.apps import AppConfig


class SiteConfig(AppConfig):
    name = "pdpp_site"
    verbose_name = "PDPP"
