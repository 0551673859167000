"use strict";
(() => {
  const root = document.documentElement;
  const form = document.getElementById("filter");
  const theme = document.getElementById("theme");
  const count = document.getElementById("count");
  const checks = [...document.querySelectorAll(".check")];
  const recipes = [...document.querySelectorAll(".recipe")];
  const texts = new Map();

  // What a person can search for: the line of the check and what stands behind it, read when it is first asked for.
  const textOf = (check) => {
    if (!texts.has(check)) texts.set(check, check.textContent.toLowerCase());
    return texts.get(check);
  };

  const filter = () => {
    const chosen = new FormData(form);
    const statuses = new Set(chosen.getAll("status"));
    const words = (chosen.get("text") || "").toLowerCase().split(/\s+/).filter(Boolean);
    const recipe = chosen.get("recipe") || "";
    const tag = chosen.get("tag") || "";
    let shown = 0;
    for (const check of checks) {
      const data = check.dataset;
      const fits = statuses.has(data.status)
        && (!recipe || data.recipe === recipe)
        && (!tag || (data.tags || "").split(" ").includes(tag))
        && words.every((word) => textOf(check).includes(word));
      check.hidden = !fits;
      shown += fits;
    }
    for (const section of recipes) section.hidden = !section.querySelector(".check:not([hidden])");
    const all = checks.length.toLocaleString("en");
    count.textContent = shown === checks.length
      ? `${all} ${checks.length === 1 ? "check" : "checks"}`
      : `${shown.toLocaleString("en")} of ${all} checks`;
  };

  const open = (wanted) => {
    for (const check of checks) if (!check.hidden) check.open = wanted;
  };

  // A page from disk may have no storage: then the choice lasts as long as the page.
  const remembered = () => { try { return localStorage.getItem("jaxcheck-theme"); } catch { return null; } };
  const remember = (name) => { try { localStorage.setItem("jaxcheck-theme", name); } catch { /* no storage */ } };
  const dark = () => root.dataset.theme
    ? root.dataset.theme === "dark"
    : matchMedia("(prefers-color-scheme: dark)").matches;
  const say = () => { theme.textContent = dark() ? "Light" : "Dark"; };

  if (["dark", "light"].includes(remembered())) root.dataset.theme = remembered();
  theme.addEventListener("click", () => {
    root.dataset.theme = dark() ? "light" : "dark";
    remember(root.dataset.theme);
    say();
  });
  let waiting = 0;
  form.addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(filter, 80); });
  form.addEventListener("reset", () => setTimeout(filter));
  form.addEventListener("submit", (event) => event.preventDefault());
  document.getElementById("open").addEventListener("click", () => open(true));
  document.getElementById("close").addEventListener("click", () => open(false));
  // On paper nothing can be opened: what is shown and did not pass is opened before.
  addEventListener("beforeprint", () => {
    for (const check of checks) if (!check.hidden && check.querySelector(".status.bad")) check.open = true;
  });

  say();
  theme.hidden = form.hidden = false;
  filter();
  root.dataset.script = "ran";
})();
