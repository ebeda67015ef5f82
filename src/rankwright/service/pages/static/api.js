// Copy buttons, and links that open what they lead to.
"use strict";
for (const button of document.querySelectorAll("button.copy")) {
  if (!navigator.clipboard) break;
  button.hidden = false;
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(button.nextElementSibling.textContent);
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  });
}
function openTarget() {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (target && target.tagName === "DETAILS") {
    target.open = true;
    target.scrollIntoView();
  }
}
addEventListener("hashchange", openTarget);
openTarget();
