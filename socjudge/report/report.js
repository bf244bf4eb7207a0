"use strict";
// Filtering and sorting of the questions. Without this script everything is shown, opened, in the order of the report.
(() => {
  const byId = (id) => document.getElementById(id);
  const { tHead, tBodies: [body] } = byId("rows");
  const rows = [...body.rows];
  const answers = [...document.querySelectorAll(".answer")]; // one for each row
  const details = [...document.querySelectorAll("details")];
  const plain = (text) => text.normalize("NFKC").toLowerCase();
  const texts = rows.map((row, n) => plain(row.textContent + answers[n].textContent));

  const filter = () => {
    const words = plain(byId("find").value).split(/\s+/).filter(Boolean);
    const { value: category } = byId("category");
    const { value: outcome } = byId("outcome");
    rows.forEach((row, n) => {
      row.hidden = answers[n].hidden = !(
        (!category || row.dataset.category === category) &&
        (!outcome || row.dataset.outcome === outcome) &&
        words.every((word) => texts[n].includes(word))
      );
    });
    const count = byId("count");
    const shown = rows.filter((row) => !row.hidden).length;
    count.textContent = count.dataset.words.replace("{shown}", shown).replace("{total}", rows.length);
  };

  const collator = new Intl.Collator("ja", { numeric: true });
  const valueOf = (row, column) => (row.cells[column].dataset.value ?? row.cells[column].textContent).trim();
  const sort = (head) => {
    const falling = head.getAttribute("aria-sort") === "ascending";
    for (const other of head.parentElement.cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", falling ? "descending" : "ascending");
    const order = (a, b) => {
      const [x, y] = [valueOf(rows[a], head.cellIndex), valueOf(rows[b], head.cellIndex)];
      if (!x || !y) return !x - !y; // what is missing comes last, up or down
      return (falling ? -1 : 1) * collator.compare(x, y);
    };
    const sorted = [...rows.keys()].sort(order);
    body.append(...sorted.map((n) => rows[n]));
    byId("answers").append(...sorted.map((n) => answers[n]));
  };

  // The heads become buttons only on the screen: Chromium may not repeat a head with a button on each sheet.
  const heads = [...tHead.rows[0].cells];
  const names = heads.map((head) => head.textContent);
  const setButtons = () => heads.forEach((head, n) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = names[n];
    button.addEventListener("click", () => sort(head));
    head.replaceChildren(button);
  });
  setButtons();

  for (const one of details) one.open = false;
  for (const one of document.querySelectorAll(".controls")) one.hidden = false;
  for (const id of ["find", "category", "outcome"]) byId(id).addEventListener("input", filter);
  byId("open").addEventListener("click", () => answers.forEach((one) => (one.open = true)));
  byId("close").addEventListener("click", () => answers.forEach((one) => (one.open = false)));
  filter(); // a browser may have kept what was typed before the page was loaded again

  let closed = [];
  addEventListener("beforeprint", () => {
    heads.forEach((head, n) => (head.textContent = names[n]));
    closed = details.filter((one) => !one.open);
    for (const one of closed) one.open = true;
  });
  addEventListener("afterprint", () => {
    setButtons();
    for (const one of closed) one.open = false;
  });
})();
