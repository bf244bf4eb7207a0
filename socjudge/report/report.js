"use strict";
// Filtering and sorting of the questions. Without this script everything is shown, opened, in the order of the run.
(() => {
  const byId = (id) => document.getElementById(id);
  const table = byId("answers");
  const answers = [...table.tBodies];
  const details = [...table.querySelectorAll("details")];
  const outer = details.filter((one) => !one.parentElement.closest("details"));
  const plain = (text) => text.normalize("NFKC").toLowerCase();
  const texts = new Map(answers.map((answer) => [answer, plain(answer.textContent)]));

  const filter = () => {
    const words = plain(byId("find").value).split(/\s+/).filter(Boolean);
    const { value: category } = byId("category");
    const { value: outcome } = byId("outcome");
    for (const answer of answers) {
      answer.hidden = !(
        (!category || answer.dataset.category === category) &&
        (!outcome || answer.dataset.outcome === outcome) &&
        words.every((word) => texts.get(answer).includes(word))
      );
    }
    const shown = answers.filter((answer) => !answer.hidden).length;
    const count = byId("count");
    count.textContent = count.dataset.words.replace("{shown}", shown).replace("{total}", answers.length);
  };

  const collator = new Intl.Collator("ja", { numeric: true });
  const valueOf = (answer, column) => {
    const cell = answer.rows[0].cells[column];
    return (cell.dataset.value ?? cell.textContent).trim();
  };
  const sort = (head) => {
    const falling = head.getAttribute("aria-sort") === "ascending";
    for (const other of head.parentElement.cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", falling ? "descending" : "ascending");
    const column = head.cellIndex;
    const order = (a, b) => {
      const [x, y] = [valueOf(a, column), valueOf(b, column)];
      if (!x || !y) return !x - !y; // what is missing comes last, up or down
      return (falling ? -1 : 1) * collator.compare(x, y);
    };
    table.append(...[...answers].sort(order));
  };

  for (const one of details) one.open = false;
  byId("controls").hidden = false;
  for (const id of ["find", "category", "outcome"]) byId(id).addEventListener("input", filter);
  byId("open").addEventListener("click", () => outer.forEach((one) => (one.open = true)));
  byId("close").addEventListener("click", () => outer.forEach((one) => (one.open = false)));
  for (const head of table.tHead.rows[0].cells) head.firstChild.addEventListener("click", () => sort(head));
  filter(); // a browser may have kept what was typed before the page was loaded again

  let closed = [];
  addEventListener("beforeprint", () => {
    closed = details.filter((one) => !one.open);
    for (const one of closed) one.open = true;
  });
  addEventListener("afterprint", () => closed.forEach((one) => (one.open = false)));
})();
