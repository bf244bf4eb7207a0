// The sliders of scores_input.py. Texts go in as textContent only.
const MOVES = ["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "Home", "End", "PageUp", "PageDown"];
let count = 0;

function make(tag, parent, properties = {}) {
  const element = Object.assign(document.createElement(tag), properties);
  parent.append(element);
  return element;
}

function render({ model, el }) {
  const words = model.get("words");
  const root = make("div", el, { className: "socjudge-scores" });
  root.setAttribute("role", "group");
  root.setAttribute("aria-label", words.group);
  make("p", root, { textContent: words.keys });

  function say(save = false) {
    const scores = sliders.map((slider) => (slider.dataset.set ? Number(slider.value) : null));
    model.set({ scores, comment: comment.value }); // for other views of it on the page
    model.send({ shown: model.get("shown"), scores, comment: comment.value, save });
  }

  function give(slider, score) {
    slider.value = score;
    slider.dataset.set = "yes";
    say();
  }

  const sliders = model.get("criteria").map((criterion) => {
    const id = `socjudge-score-${++count}`;
    const row = make("div", root, { className: "row" });
    make("label", row, { htmlFor: id, textContent: criterion });
    const slider = make("input", row, { id, type: "range", min: 0, max: 100, step: 5 });
    make("output", row, { htmlFor: id });
    slider.addEventListener("input", () => give(slider, slider.value));
    // Where the value is meant as it stands, there is no input event. A click on the name is no click on the slider.
    let pressed = false;
    slider.addEventListener("pointerdown", () => (pressed = true));
    slider.addEventListener("click", () => {
      if (pressed && !slider.dataset.set) give(slider, slider.value);
      pressed = false;
    });
    slider.addEventListener("keyup", (event) => {
      if (MOVES.includes(event.key) && !slider.dataset.set) give(slider, slider.value);
    });
    slider.addEventListener("keydown", (event) => {
      if (!/^[0-4]$/.test(event.key) || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      give(slider, 25 * Number(event.key));
      sliders[sliders.indexOf(slider) + 1]?.focus();
    });
    return slider;
  });
  const id = `socjudge-score-${++count}`;
  make("label", root, { htmlFor: id, textContent: words.comment });
  const comment = make("textarea", root, { id, rows: 2 });
  comment.addEventListener("input", () => say());
  const button = make("button", root, { type: "button", textContent: words.save });
  button.className = "jupyter-widgets jupyter-button widget-button mod-primary";
  button.addEventListener("click", () => say(true));

  // JupyterLab takes keys for commands, such as 1 for a heading and Shift+Enter to run the cell.
  root.addEventListener("keydown", (event) => {
    if (event.key === "Enter" || !(event.ctrlKey || event.metaKey)) event.stopPropagation();
  });

  function draw() {
    sliders.forEach((slider, i) => {
      const score = model.get("scores")[i] ?? null;
      slider.value = score ?? 0;
      if (score === null) delete slider.dataset.set;
      else slider.dataset.set = "yes";
      slider.nextElementSibling.textContent = score ?? words.unset;
      slider.setAttribute("aria-valuetext", score === null ? words.unset : words.points.replace("{score}", score));
      slider.disabled = model.get("disabled");
    });
    if (comment.value !== model.get("comment")) comment.value = model.get("comment");
    comment.disabled = button.disabled = model.get("disabled");
  }

  function begin() {
    draw(); // enables the first slider; "change" itself comes after "change:shown"
    el.closest(".socjudge-label-panel")?.querySelector(".question")?.scrollIntoView({ block: "nearest" });
    sliders[0].focus({ preventScroll: true });
  }

  draw();
  model.on("change", draw);
  model.on("change:shown", begin);
  return () => {
    model.off("change", draw);
    model.off("change:shown", begin);
  };
}

export default { render };
