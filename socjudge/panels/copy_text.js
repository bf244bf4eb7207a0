// A text to copy, with a button. Without navigator.clipboard, which a page has only at https or on the own machine.
function render({ model, el }) {
  const area = Object.assign(document.createElement("textarea"), { readOnly: true, rows: 4 });
  const button = Object.assign(document.createElement("button"), { type: "button", className: "jupyter-button widget-button" });
  area.setAttribute("aria-label", model.get("title"));
  area.style.cssText = "width: calc(100% - 12px); max-width: 64em; font: inherit; line-height: 1.6; padding: 4px; color: inherit; background: transparent";
  button.style.cssText = "display: block; width: auto";
  const draw = () => {
    area.value = model.get("text");
    button.textContent = model.get("name");
  };
  button.addEventListener("click", () => {
    area.select();
    if (document.execCommand("copy")) button.textContent = model.get("done");
  });
  area.addEventListener("keydown", (event) => event.stopPropagation()); // JupyterLab's own keys
  model.on("change:text", draw);
  el.append(area, button);
  draw();
}
export default { render };
