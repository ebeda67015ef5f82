// Keys of the judging page: a key presses the button that names it in data-keys.
"use strict";

// The scripts are not deferred: an item is never visible without its keys. A key that is pressed
// before htmx drives the forms waits for that moment.
let ready = false;
document.addEventListener("DOMContentLoaded", () => (ready = true)); // htmx's listener was first
document.addEventListener("keydown", (event) => {
  if (ready) onKey(event);
  else document.addEventListener("DOMContentLoaded", () => onKey(event), { once: true });
});

// Keys that are pressed while an answer is on its way wait for the next item, and keep their order.
const waiting = [];
let sending = false;
document.addEventListener("submit", () => (sending = true), true);
document.addEventListener("htmx:after:swap", () => {
  sending = false;
  setTimeout(pressWaiting, 0);
});

function pressWaiting() {
  while (waiting.length && !sending) {
    press({ key: waiting.shift(), target: document.body, preventDefault() {} });
  }
}

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const target = event.target;
  const typing = target.matches("textarea, input:not([type=range]):not([type=radio])");
  if (typing) {
    if (event.key === "Escape") target.blur();
    return;
  }
  if (sending || waiting.length) {
    event.preventDefault();
    if (!event.repeat) waiting.push(event.key);
    return;
  }
  press(event);
}

function press(event) {
  const target = event.target;
  if (slide(event) || event.repeat) return;
  const onControl = target.matches("button, a, summary");
  if (onControl && (event.key === "Enter" || event.key === " ")) return;
  const field = document.querySelector(`[data-focus="${CSS.escape(event.key)}"]`);
  if (field) {
    event.preventDefault();
    field.focus();
    return;
  }
  const button = document.querySelector(`[data-keys~="${CSS.escape(event.key)}"]`);
  if (button && !button.disabled) {
    event.preventDefault();
    button.click();
  }
}

// Long texts are clamped until their button is pressed; without scripts they are shown whole.
function clamp() {
  for (const button of document.querySelectorAll(".show-more[hidden]")) {
    button.hidden = false;
    button.previousElementSibling.classList.add("short");
  }
}
document.addEventListener("DOMContentLoaded", clamp);
document.addEventListener("htmx:after:swap", clamp);
document.addEventListener("click", (event) => {
  const button = event.target.closest(".show-more");
  if (!button) return;
  const short = button.previousElementSibling.classList.toggle("short");
  button.textContent = short ? "Show more" : "Show less";
  button.setAttribute("aria-expanded", String(!short));
});

// Arrows and digits move the slider, wherever the focus is.
function slide(event) {
  const slider = document.querySelector("[data-arrows]");
  if (!slider) return false;
  const steps = { ArrowLeft: -5, ArrowDown: -5, ArrowRight: 5, ArrowUp: 5 };
  let value;
  if (event.key in steps) value = Number(slider.value) + steps[event.key];
  else if (/^[0-9]$/.test(event.key)) value = 10 * Number(event.key);
  else return false;
  event.preventDefault();
  slider.value = value;
  show(slider);
  return true;
}

function show(slider) {
  slider.form.querySelector("output").value = slider.value;
}

document.addEventListener("input", (event) => {
  if (event.target.matches("[data-arrows]")) show(event.target);
});

// The next item has the same buttons: keep the focus on the one that was pressed.
let pressed = null;
document.addEventListener("htmx:before:swap", () => {
  pressed = document.activeElement.closest("#work button")?.dataset.keys;
});
document.addEventListener("htmx:after:swap", () => {
  document.getElementById("alert").textContent = "";
  if (pressed) document.querySelector(`[data-keys="${CSS.escape(pressed)}"]`)?.focus();
});

// An answer that did not reach the log must not look as if it had.
for (const name of ["htmx:response:error", "htmx:error"]) {
  document.addEventListener(name, (event) => {
    const status = event.detail?.ctx?.response?.status;
    waiting.length = 0;
    sending = false;
    const reason = status ? `the server answered ${status}` : "the server cannot be reached";
    document.getElementById("alert").textContent = `Not saved: ${reason}. Reload the page.`;
  });
}
