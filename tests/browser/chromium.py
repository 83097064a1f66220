"""A headless Chromium, from Debian's packages ``chromium`` and ``chromium-driver``."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from selenium.common.exceptions import (
    InvalidSessionIdException,
    NoSuchWindowException,
    TimeoutException,
    WebDriverException,
)
from selenium.webdriver import Chrome, ChromeOptions, ChromeService
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import WebDriverWait

PHONE, DESKTOP = (390, 844), (1200, 900)
SECONDS = 60
"""Maximum wait for a page on a busy machine."""
POLL = 0.1

# One script reads, or finds and presses: an element that a second command is to look at can have
# been replaced in between, and which error that is depends on the moment.
READ = """
const text = (document.body?.innerText ?? "").replace(/[^\\S\\n]+/g, " ");
return [text, document.readyState === "complete"];
"""
PRESS = """
const [selector, words, isWhole] = arguments;
for (const each of document.querySelectorAll(selector)) {
  const said = (each.innerText || each.value || "").trim();
  if (!(isWhole ? said === words : said.startsWith(words)) || !each.checkVisibility()) continue;
  each.scrollIntoView({block: "center", behavior: "instant"});
  const {x, y, width, height} = each.getClientRects()[0];
  if (!each.contains(document.elementFromPoint(x + width / 2, y + height / 2))) return false;
  each.dispatchEvent(new MouseEvent("click", {bubbles: true, cancelable: true, view: window}));
  return true;
}
return false;
"""
# A phone shows a page without a viewport scaled down.
HAS_SIZE = """
const {width, height, scale} = visualViewport;
const isClose = (length, wanted) => Math.abs(length * scale - wanted) <= 1;
return isClose(width, arguments[0]) && isClose(height, arguments[1]);
"""


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
    """Set the size of the page itself, however small a window can be, and wait until it has it."""
    width, height = size
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    wait_until(
        driver,
        lambda it: it.execute_script(HAS_SIZE, width, height),
        f"the page does not become {width} by {height}",
    )


def wait_until(
    driver: Chrome,
    condition: Callable[[Chrome], object],
    message: str = "it does not become true",
    *,
    seconds: float = SECONDS,
) -> None:
    """Wait for a condition, asking again whatever the browser says while a page comes or goes."""

    last_error: WebDriverException | None = None

    def is_met(it: Chrome) -> bool:
        nonlocal last_error
        try:
            return bool(condition(it))
        except (InvalidSessionIdException, NoSuchWindowException):
            raise AssertionError("the browser is gone") from None
        except WebDriverException as error:
            last_error = error
            return False

    try:
        WebDriverWait(driver, seconds, POLL).until(is_met)
    except TimeoutException:
        raise TimeoutException(f"{message}; the browser's last error: {last_error}") from None


def text(driver: Chrome) -> str:
    """Return the visible text of the page, which may replace itself meanwhile."""
    found = ""

    def read(it: Chrome) -> bool:
        nonlocal found
        found, _ = it.execute_script(READ)
        return True

    wait_until(driver, read, "the page has no text")
    return found


def wait_for(driver: Chrome, words: str) -> None:
    """Wait until the page says so and is loaded, so that its scripts answer the next press."""

    def says(it: Chrome) -> bool:
        found, is_loaded = it.execute_script(READ)
        return is_loaded and words in found

    try:
        wait_until(driver, says)
    except TimeoutException:
        raise AssertionError(f"the page does not say {words!r}, but: {text(driver)}") from None


def press(driver: Chrome, words: str, *, within: str = "body", seconds: float = SECONDS) -> None:
    """Press the first visible button or link of these words, as soon as there is one."""
    selectors = [f"{within} {each}" for each in ("button", "a", "input[type=submit]")]
    _press_first(driver, selectors, words, is_whole=True, seconds=seconds)


def tick(driver: Chrome, words: str) -> None:
    """Press the visible box, or whatever opens, beside words that begin so."""
    _press_first(driver, ["label.box", "summary"], words, is_whole=False)


def press_at(driver: Chrome, selector: str) -> None:
    """Press the first visible element of a CSS selector, as soon as there is one."""
    _press_first(driver, [selector], "", is_whole=False)


def _press_first(
    driver: Chrome, selectors: list[str], words: str, *, is_whole: bool, seconds: float = SECONDS
) -> None:
    """Press the middle of an element; again if it is not there yet or something covers it."""
    wait_until(
        driver,
        lambda it: it.execute_script(PRESS, ", ".join(selectors), words, is_whole),
        f"nothing to press says {words!r}",
        seconds=seconds,
    )


def reach(driver: Chrome, element: WebElement) -> None:
    """Press an element of a page that does not change by itself."""
    driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", element)
    element.click()


def fill(driver: Chrome, name: str, value: str) -> None:
    """Type into the field of a name, in place of what it contains."""

    def attempt(it: Chrome) -> bool:
        element = it.find_element(By.NAME, name)
        element.clear()
        element.send_keys(value)
        return element.get_property("value") == value

    wait_until(driver, attempt, f"the field {name} does not keep {value!r}")


def overflows(driver: Chrome) -> bool:
    """Whether the page has to be moved sideways to be read."""
    wide: bool = driver.execute_script(
        "return document.documentElement.scrollWidth > document.documentElement.clientWidth"
    )
    return wide
