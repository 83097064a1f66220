"""App configuration of the site and its commands."""

from django.apps import AppConfig


class SiteConfig(AppConfig):
    name = "pdpp_site"
    verbose_name = "PDPP"
