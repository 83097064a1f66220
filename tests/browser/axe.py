"""axe-core over the page that is open, from the npm package that ``make sign-in`` installs."""

from pathlib import Path

from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By

from tests.browser.chromium import DESKTOP, PHONE, overflows, resize

SCRIPT = Path(__file__).parents[2] / "var/sign-in/node_modules/axe-core/axe.min.js"
LOOKS = tuple((width, scheme) for width in (PHONE[0], 1280) for scheme in ("light", "dark"))

OPEN_DETAILS = """
for (const each of document.querySelectorAll("details:not([open], .account)")) each.open = true;
"""
# All rules that axe enables, and the one of WCAG 2.2 that it does not. A frame of a record runs no
# script, so axe cannot look into it.
RUN = """
const [place, done] = arguments;
for (const each of document.getAnimations()) each.finish();
const options = {resultTypes: ["violations"], iframes: false, rules: {"target-size": {enabled: true}}};
axe.run(place, options).then(({violations}) => done(violations.flatMap(rule => rule.nodes.map(node =>
    `${rule.id}: ${node.html.slice(0, 150)}: ${node.any.concat(node.all, node.none).map(each => each.message).join("; ")}`))),
    error => done([String(error)]));
"""


def find_faults(browser: Chrome) -> list[str]:
    """Return what axe finds at each size, in light and dark, and whether the page is too wide."""
    browser.execute_script(OPEN_DETAILS)
    browser.execute_script(SCRIPT.read_text())
    path = browser.current_url.partition("//")[2].partition("/")[2].partition("?")[0]
    found = []
    for width, scheme in LOOKS:
        # As high as the page, so that no bar at the bottom of the window covers anything.
        resize(browser, (width, DESKTOP[1]))
        height = browser.execute_script("return document.documentElement.scrollHeight")
        resize(browser, (width, height))
        feature = {"name": "prefers-color-scheme", "value": scheme}
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
        faults = browser.execute_async_script(RUN, "html")
        for menu in browser.find_elements(By.CLASS_NAME, "account"):  # covers what is below it
            browser.execute_script("arguments[0].open = true", menu)
            faults += browser.execute_async_script(RUN, ".account")
            browser.execute_script("arguments[0].open = false", menu)
        faults += ["wider than the window"] if overflows(browser) else []
        found += [f"/{path} ({width}, {scheme}): {each}" for each in faults]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    resize(browser, DESKTOP)
    return found
