"""The accessibility rules of axe-core, run on the page that a browser shows."""

import pytest


def violations(driver):
    """Return one line for every rule that the page breaks, with an element at fault."""
    axe = pytest.importorskip("axe_core_python.selenium", reason="needs axe-core-python")
    found = axe.Axe().run(driver)
    assert len(found["passes"]) > 15  # it has looked
    return [
        f"{rule['id']}: {rule['help']}: {rule['nodes'][0]['html'][:200]}"
        for rule in found["violations"]
    ]


def check_by_hand(driver):
    """Look for what every page needs, with or without axe-core."""
    script = """
      const faults = [];
      const name = (e) => (e.getAttribute("aria-label") || e.textContent || "").trim();
      if (document.documentElement.lang !== "en") faults.push("lang");
      if (!document.title) faults.push("title");
      if (document.querySelectorAll("h1").length !== 1) faults.push("one h1");
      let level = 0;
      for (const h of document.querySelectorAll("h1, h2, h3")) {
        if (Number(h.tagName[1]) > level + 1) faults.push("heading " + h.textContent);
        level = Number(h.tagName[1]);
      }
      for (const e of document.querySelectorAll("input, select"))
        if (!e.labels.length) faults.push("label of " + e.id);
      for (const e of document.querySelectorAll("button"))
        if (!name(e)) faults.push("nameless button");
      for (const e of document.querySelectorAll("canvas:not([aria-hidden])"))
        if (e.getAttribute("role") !== "img" || name(e).length < 30) faults.push(e.id);
      for (const e of document.querySelectorAll(".charts table"))
        if (!e.caption) faults.push("table without caption");
      return faults;
    """
    assert driver.execute_script(script) == []


def check_report(driver, title, n_pictures):
    """Look for what every page of text, pictures and tables has."""
    assert driver.get_log("browser") == []
    check_by_hand(driver)
    assert violations(driver) == []
    assert driver.title == title
    pictures = driver.find_elements("css selector", "figure svg")
    assert len(pictures) == n_pictures
    for picture in pictures:
        assert picture.size["width"] > 200
        assert picture.size["height"] > 60
    for label in driver.find_elements("css selector", "figure .paper"):
        assert len(label.get_attribute("aria-label")) > 30


def sticks_out(driver):
    """Return how many pixels the page is wider than its window."""
    root = "document.documentElement"
    return driver.execute_script(f"return {root}.scrollWidth - {root}.clientWidth")


def milliseconds(driver, slider, value):
    """Return how long the page takes from a slider's event to the frame that shows it."""
    script = """
      const [slider, value, done] = arguments;
      requestAnimationFrame(() => {
        const began = performance.now();
        slider.value = value;
        slider.dispatchEvent(new Event("input", { bubbles: true }));
        requestAnimationFrame(() => setTimeout(() => done(performance.now() - began)));
      });
    """
    return driver.execute_async_script(script, slider, str(value))
