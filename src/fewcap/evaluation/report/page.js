"use strict";
(() => {
  const root = document.documentElement;
  const themes = ["", "light", "dark"];
  document.getElementById("theme").addEventListener("click", () => {
    const next = themes[(themes.indexOf(root.dataset.theme || "") + 1) % themes.length];
    if (next) root.dataset.theme = next; else delete root.dataset.theme;
  });

  const gallery = document.getElementById("gallery");
  if (gallery) {
    const clips = [...gallery.children];
    const value = (clip, name) => Number(clip.dataset[name]) || 0;
    const orders = {
      worst: (a, b) => value(a, "score") - value(b, "score"),
      best: (a, b) => value(b, "score") - value(a, "score"),
      video: (a, b) => value(b, "video") - value(a, "video"),
      keywords: (a, b) => value(a, "video") - value(b, "video"),
      name: (a, b) => a.dataset.name.localeCompare(b.dataset.name, "en", { numeric: true }),
    };
    const order = document.getElementById("order");
    const find = document.getElementById("find");
    const count = document.getElementById("count");
    const update = () => {
      const wanted = find.value.trim().toLowerCase();
      clips.sort(orders[order.value]);
      let shown = 0;
      for (const clip of clips) {
        clip.hidden = wanted !== "" && !clip.dataset.text.includes(wanted);
        if (!clip.hidden) shown += 1;
      }
      gallery.append(...clips);
      count.textContent = shown === clips.length ? `${shown} clips` : `${shown} of ${clips.length} clips`;
    };
    order.addEventListener("change", update);
    find.addEventListener("input", update);
    update();
  }

  // Controls hide the picture, so they come when the pointer or the focus does. Without this script they are always there.
  for (const video of document.querySelectorAll(".screen video")) {
    const screen = video.parentElement;
    const rest = () => { if (video.paused && document.activeElement !== video) video.controls = false; };
    video.controls = false;
    video.tabIndex = 0;
    screen.classList.add("playable");
    video.addEventListener("play", () => { video.controls = true; screen.classList.add("played"); });
    for (const event of ["pointerenter", "focus"]) video.addEventListener(event, () => { video.controls = true; });
    for (const event of ["pointerleave", "blur"]) video.addEventListener(event, rest);
  }

  let opened = [];
  addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("details:not([open])")];
    for (const one of opened) one.open = true;
  });
  addEventListener("afterprint", () => {
    for (const one of opened) one.open = false;
    opened = [];
  });
})();
