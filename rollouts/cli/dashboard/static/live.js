// Keeps the page up to date: the server sends the whole of <main>, and what differs is changed in place, so that focus, scrolling and
// open parts stay as they are. Without this file the pages show how things were when they were loaded, and everything works.
"use strict";

const RETRY_MS = 2000;
const ZONE = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "long" }); // of whoever looks
let stream = null;

function sameNode(old, now) {
  return old.nodeType === now.nodeType && old.nodeName === now.nodeName && (old.id || "") === (now.id || "");
}

function morph(old, now) {
  if (old.nodeType === Node.TEXT_NODE) {
    if (old.data !== now.data) old.data = now.data;
    return;
  }
  const kept = old.nodeName === "DETAILS" ? ["open"] : [];
  if (old === document.activeElement && "value" in old) kept.push("value");
  for (const { name } of [...old.attributes]) {
    if (!now.hasAttribute(name) && !kept.includes(name)) old.removeAttribute(name);
  }
  for (const { name, value } of [...now.attributes]) {
    if (old.getAttribute(name) !== value && !kept.includes(name)) old.setAttribute(name, value);
  }
  const wanted = [...now.childNodes];
  wanted.forEach((child, index) => {
    const there = old.childNodes[index];
    const known = child.id && [...old.children].find((each) => each.id === child.id);
    if (known && known !== there) old.insertBefore(known, there || null);
    const at = old.childNodes[index];
    if (at && sameNode(at, child)) morph(at, child);
    else old.insertBefore(document.importNode(child, true), at || null);
  });
  while (old.childNodes.length > wanted.length) old.lastChild.remove();
}

function show(html, title) {
  const now = new DOMParser().parseFromString(html, "text/html").querySelector("main");
  if (!now) return;
  document.title = title;
  morph(document.querySelector("main"), now);
  localTimes();
}

function localTimes() {
  for (const time of document.querySelectorAll("time")) {
    const at = new Date(time.dateTime);
    if (isNaN(at)) continue; // a text that looks like a time, and is none
    const local = ZONE.format(at);
    const exact = time.className === "exact";
    time.title = exact ? time.dateTime : local;
    if (exact) time.textContent = local;
  }
}

function say(text) {
  const live = document.getElementById("live");
  if (live && live.textContent !== text) live.textContent = text;
}

function follow() {
  if (stream) stream.close();
  stream = null;
  const path = document.body.dataset.stream;
  // A browser opens six connections to one server, so a page that nobody sees gives its own back.
  if (!path || document.hidden) return;
  stream = new EventSource(path + location.search);
  stream.addEventListener("page", (event) => {
    const page = JSON.parse(event.data);
    show(page.html, page.title);
    say("live");
  });
  stream.addEventListener("full", (event) => {
    stream.close();
    say(JSON.parse(event.data));
  });
  stream.addEventListener("again", follow); // whoever keeps the door wants to know whether we are still the same
  const own = stream;
  stream.onerror = async () => {
    say("no live updates: the dashboard does not answer");
    if (own.readyState !== EventSource.CLOSED) return;
    if (await isUnknown()) location.reload();
    else if (own === stream) setTimeout(follow, RETRY_MS);
  };
}

// Whether the dashboard, or a proxy before it, does not know who we are any more: its answer to a page that is opened says why.
async function isUnknown() {
  try {
    const answer = await fetch(location.href, { method: "HEAD", redirect: "manual" });
    return answer.type === "opaqueredirect" || answer.status === 401 || answer.status === 403;
  } catch {
    return false;
  }
}

async function search(form) {
  const query = new URLSearchParams(new FormData(form));
  for (const [name, value] of [...query]) if (!value) query.delete(name);
  history.replaceState(null, "", query.size ? "?" + query : location.pathname);
  follow();
}

function keys(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.nodeName)) return;
  const rows = [...document.querySelectorAll("a.row")];
  const at = rows.indexOf(document.activeElement);
  const box = document.querySelector("input[type=search]");
  if (event.key === "/" && box) {
    event.preventDefault();
    box.focus();
  } else if (event.key === "j" && rows.length) rows[Math.min(at + 1, rows.length - 1)].focus();
  else if (event.key === "k" && rows.length) rows[Math.max(at - 1, 0)].focus();
}

document.addEventListener("input", (event) => {
  if (event.target.form && event.target.form.role === "search") search(event.target.form);
});
document.addEventListener("keydown", keys);
document.addEventListener("visibilitychange", follow);
window.addEventListener("pagehide", () => stream && stream.close());
localTimes();
follow();
