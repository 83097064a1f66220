"""A headless Chromium, from Debian's packages ``chromium`` and ``chromium-driver``."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver import Chrome, ChromeOptions, ChromeService
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import WebDriverWait

PROGRAMS = ("chromium", "chromedriver")
MISSING = [each for each in PROGRAMS if shutil.which(each) is None]
PHONE, DESKTOP = (390, 844), (1200, 900)
SECONDS = 30


@contextmanager
def chromium(*, scripts: bool = True) -> Iterator[Chrome]:
    """A browser with a profile of its own; without ``scripts`` it runs none."""
    options = ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu",
        "--hide-scrollbars", "--force-device-scale-factor=1", "--no-first-run"):  # fmt: skip
        options.add_argument(argument)
    if not scripts:
        off = {"profile.managed_default_content_settings.javascript": 2}
        options.add_experimental_option("prefs", off)
    driver = Chrome(options=options, service=ChromeService(shutil.which("chromedriver")))
    try:
        resize(driver, DESKTOP)
        yield driver
    finally:
        driver.quit()


def resize(driver: Chrome, size: tuple[int, int]) -> None:
    """The size of the page itself, however little a window can be."""
    width, height = size
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)


def text(driver: Chrome) -> str:
    return driver.find_element(By.TAG_NAME, "body").text


def wait_for(driver: Chrome, words: str) -> None:
    """Until the page says so."""
    said = f"the page does not say {words!r}"
    WebDriverWait(driver, SECONDS, ignored_exceptions=[Exception]).until(
        lambda it: words in text(it), said
    )


def press(place: Chrome | WebElement, words: str) -> None:
    """Press the first visible button or link of these words."""
    driver = place if isinstance(place, Chrome) else place.parent

    def find() -> WebElement:
        for each in place.find_elements(By.CSS_SELECTOR, "button, a, input[type=submit]"):
            said = each.text.strip() or each.get_attribute("value")
            if said == words and each.is_displayed():
                return each
        raise AssertionError(f"nothing to press says {words!r}")

    _reach_steadily(driver, find)


def tick(driver: Chrome, words: str) -> None:
    """Press the visible box, or whatever opens, beside words that begin so."""

    def find() -> WebElement:
        for each in driver.find_elements(By.CSS_SELECTOR, "label.box, summary"):
            if each.is_displayed() and each.text.strip().startswith(words):
                return each
        raise AssertionError(f"no box says {words!r}")

    _reach_steadily(driver, find)


def _reach_steadily(driver: Chrome, find: Callable[[], WebElement]) -> None:
    """Find and press an element; again if the page replaced a part of itself meanwhile."""

    def attempt(_: Chrome) -> bool:
        reach(driver, find())
        return True

    WebDriverWait(driver, SECONDS, ignored_exceptions=[StaleElementReferenceException]).until(
        attempt
    )


def reach(driver: Chrome, element: WebElement) -> None:
    driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", element)
    element.click()


def fill(driver: Chrome, name: str, value: str) -> None:
    element = driver.find_element(By.NAME, name)
    element.clear()
    element.send_keys(value)


def overflows(driver: Chrome) -> bool:
    """Whether the page has to be moved sideways to be read."""
    wide: bool = driver.execute_script(
        "return document.documentElement.scrollWidth > document.documentElement.clientWidth"
    )
    return wide
