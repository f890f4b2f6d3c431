"""Where a page is wider than its screen, and rows are taller than what is seen of them."""

from playwright.sync_api import Page

#: What stands out over the right edge of the screen, other than inside a box that scrolls.
OVER_THE_EDGE = """() => {
  const scrolls = each => ["auto", "scroll", "hidden"].includes(getComputedStyle(each).overflowX);
  const inBox = each => each !== document.body && (scrolls(each) || inBox(each.parentElement));
  const over = [...document.querySelectorAll("body *")].filter(each =>
    each.checkVisibility() && each.getBoundingClientRect().right > innerWidth + 0.5
    && !inBox(each.parentElement));
  const page = document.documentElement.scrollWidth;
  return [
    ...(page > innerWidth ? [`the page: ${page} px`] : []),
    ...over.map(each => `${each.tagName} ${each.id}: ${each.textContent.trim().slice(0, 40)}`),
  ];
}"""

#: The boxes that scroll sideways: the name of each.
SCROLLING = """() => [...document.querySelectorAll(".scroll, .chart, pre")]
  .filter(box => box.checkVisibility() && box.scrollWidth > box.clientWidth + 1)
  .map(box => box.querySelector("table")?.id || box.ariaLabel || box.textContent)"""

#: Rows that go on for more than a line below the lowest text that is in sight in them.
TALL_ROWS = """() => [...document.querySelectorAll(".scroll tbody tr")].filter(row => {
  if (!row.checkVisibility()) return false;
  const edge = row.closest(".scroll").getBoundingClientRect().right;
  const range = document.createRange();
  const lowest = Math.max(...[...row.cells].map(cell => {
    range.selectNodeContents(cell);
    const seen = [...range.getClientRects()].filter(each => each.width && each.left < edge);
    return Math.max(...seen.map(each => each.bottom));
  }));
  return row.getBoundingClientRect().bottom - lowest > 20;
}).map(row => `${row.closest("table").id}: ${row.textContent.trim().slice(0, 60)}`)"""


def open_everything(page: Page) -> None:
    page.eval_on_selector_all("details", "all => all.forEach(each => each.open = true)")


def over_the_edge(page: Page) -> list[str]:
    return page.evaluate(OVER_THE_EDGE)


def scrolling(page: Page) -> set[str]:
    return set(page.evaluate(SCROLLING))


def tall_rows(page: Page) -> list[str]:
    return page.evaluate(TALL_ROWS)
