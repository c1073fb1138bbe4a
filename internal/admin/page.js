// Brings #live up to date while somebody looks. The page works without it.
"use strict";
const every = 5000; // milliseconds
const pause = document.getElementById("pause");
let paused = false;

async function refresh() {
  if (paused || document.hidden) return;
  try {
    const answer = await fetch("/", { cache: "no-store" });
    if (!answer.ok) return;
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    const live = document.getElementById("live");
    if (live.contains(document.activeElement)) return; // nobody loses their place
    live.replaceWith(fresh.getElementById("live"));
    document.querySelector("header time").replaceWith(fresh.querySelector("header time"));
  } catch {
    // authz is away: what is shown stays, with its time.
  }
}

pause.hidden = false;
pause.addEventListener("click", () => {
  paused = !paused;
  pause.setAttribute("aria-pressed", String(paused));
});
setInterval(refresh, every);
