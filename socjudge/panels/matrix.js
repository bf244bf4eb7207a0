// A matrix of questions and runs: sorted by a column, filtered by text. A cell is chosen by a click or by Enter, and a run by
// the tick in its heading.
const make = (tag, text = "", attributes = {}) => {
  const node = Object.assign(document.createElement(tag), { textContent: text }); // textContent: nothing is markup
  Object.entries(attributes).forEach(([name, value]) => node.setAttribute(name, value));
  return node;
};
const plain = (text) => text.normalize("NFKC").toLowerCase();
const STEPS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

function render({ model, el }) {
  const words = model.get("words");
  const find = make("input", "", { type: "search", placeholder: words.find, "aria-label": words.find });
  const count = make("span", "", { role: "status" });
  const box = make("div", "", { class: "sj-matrix-box" });
  const table = make("table", "", { role: "grid", "aria-label": words.title });
  let by = -1, turn = 1; // the column that sorts; -1: in the order of Python

  const order = () => {
    const [questions, cells] = [model.get("questions"), model.get("cells")];
    const wanted = plain(find.value), score = (row) => cells[row][by][0];
    const rows = model.get("shown").filter((row) => plain(questions[row]).includes(wanted));
    return by < 0 ? rows : rows.sort((a, b) => // what has no score is last, up or down
      (score(a) === null) - (score(b) === null) || turn * (score(a) - score(b)) || a - b);
  };
  const heading = (name, column) => {
    const sorted = by !== column ? "none" : turn > 0 ? "ascending" : "descending";
    const th = make("th", "", { scope: "col", "aria-sort": column < 0 ? "none" : sorted });
    if (column >= 0 && model.get("runs").length > 1) {
      const tick = make("input", "", { type: "checkbox", "aria-label": words.pick.replace("{run}", name), "data-pick": column });
      tick.checked = model.get("picked").includes(column);
      th.append(tick);
    }
    th.append(make("button", name, { type: "button", title: name, "data-by": column, tabindex: -1 }));
    return th;
  };
  const draw = () => {
    const [questions, runs, cells] = ["questions", "runs", "cells"].map((name) => model.get(name));
    const rows = order(), head = make("tr"), body = make("tbody"), had = table.contains(document.activeElement);
    head.append(...[words.question, ...runs].map((name, place) => heading(name, place - 1)));
    for (const row of rows) {
      const line = make("tr", "", { "data-row": row });
      line.append(make("th", questions[row], { scope: "row", title: questions[row], "data-column": -1, tabindex: -1 }));
      cells[row].forEach(([score, sign], column) => line.append(make("td", `${sign} ${score ?? ""}`, {
        style: score === null ? "" : `--score: ${score}`, "data-column": column, tabindex: -1 })));
      body.append(line);
    }
    table.replaceChildren(make("thead"), body);
    table.tHead.append(head);
    count.textContent = `${rows.length} / ${questions.length}`;
    mark();
    if (had) table.querySelector("[tabindex='0']")?.focus(); // the cell that had it is gone
  };
  const mark = () => {
    const [row, column] = model.get("chosen");
    const cell = table.querySelector(`tr[data-row="${row}"] > [data-column="${column}"]`);
    table.querySelector("[aria-selected]")?.removeAttribute("aria-selected");
    table.querySelector("[tabindex='0']")?.setAttribute("tabindex", -1);
    cell?.setAttribute("aria-selected", "true");
    (cell ?? table.querySelector("[data-column]"))?.setAttribute("tabindex", 0); // one stop for Tab, then arrows
  };
  const sort = (column) => {
    [by, turn] = by !== column ? [column, 1] : turn > 0 ? [by, -1] : [-1, 1];
    draw();
    table.querySelector(`[data-by="${column}"]`).focus();
  };
  const choose = (cell) => {
    model.set("chosen", [+cell.parentNode.dataset.row, +cell.dataset.column]);
    model.save_changes();
  };
  const pick = () => {
    const ticks = [...table.querySelectorAll("[data-pick]")];
    model.set("picked", ticks.filter((tick) => tick.checked).map((tick) => +tick.dataset.pick));
    model.save_changes();
  };
  table.addEventListener("change", pick);
  table.addEventListener("click", ({ target }) =>
    target.dataset.by ? sort(+target.dataset.by) : target.dataset.column && choose(target));
  table.addEventListener("keydown", (event) => {
    const { key, target } = event, step = STEPS[key], cell = target.closest("th, td");
    if (target.dataset.pick && !step) return; // Space ticks it
    if (!step && (target !== cell || (key !== "Enter" && key !== " "))) return; // Enter on a heading: a click, it sorts
    const next = step && table.rows[cell.parentNode.rowIndex + step[0]]?.cells[cell.cellIndex + step[1]];
    step ? (next?.querySelector("button") ?? next)?.focus() : choose(target);
    event.preventDefault();
    event.stopPropagation(); // otherwise JupyterLab moves to another cell of the notebook
  });
  find.addEventListener("keydown", (event) => event.stopPropagation());
  find.addEventListener("input", draw);
  const newest = () => { box.scrollLeft = box.scrollWidth; }; // the runs that are ticked at first
  model.on("change:questions change:runs change:cells change:shown", draw);
  model.on("change:runs", newest);
  model.on("change:chosen", mark);
  box.append(table);
  el.classList.add("sj-matrix");
  el.append(find, count, box);
  draw();
  new IntersectionObserver(([{ isIntersecting }], watch) => isIntersecting && (newest(), watch.disconnect())).observe(box);
}
export default { render };
