/* Keys 1 … 9 press the button or choose the answer of that number, 0 takes the last answer back; a second press within 400 ms does nothing;
   focus follows the question; guidelines stay as they were left; images are enlarged; the dashboard asks for news while it is seen; a button copies. */
(function () {
  "use strict";
  var PAUSE = 400, pressed = -PAUSE, staying = false;
  function question() { return document.querySelector("form[data-keys]"); }
  function groups(form) { return Array.from(form.querySelectorAll("fieldset[data-group]")); }
  function press(form, key) {
    var button = (key === "0" ? document : form).querySelector('button[data-key="' + key + '"]');
    if (button) { button.click(); return true; }
    var open = groups(form).filter(function (g) { return !g.querySelector("input:checked"); })[0];
    var radio = open && open.querySelector('input[data-key="' + key + '"]');
    if (!radio) { return false; }
    radio.checked = true;
    var left = groups(form).filter(function (g) { return !g.querySelector("input:checked"); })[0];
    (left ? left.querySelector("input") : form.querySelector("button[data-submit]")).focus();
    return true;
  }
  document.addEventListener("keydown", function (event) {
    var form = question() || document.querySelector("form[data-undo]");
    if (!form || event.ctrlKey || event.altKey || event.metaKey || event.repeat || !/^[0-9]$/.test(event.key)) { return; }
    var tag = event.target.tagName;
    if (tag === "SELECT" || tag === "TEXTAREA" || (tag === "INPUT" && event.target.type !== "radio") || event.target.closest("dialog")) { return; }
    if (press(form, event.key)) { event.preventDefault(); }
  });
  document.addEventListener("submit", function (event) {
    if (!event.target.matches("form[data-keys], form[data-undo]")) { return; }
    if (event.timeStamp - pressed < PAUSE) { event.preventDefault(); event.stopImmediatePropagation(); return; }
    pressed = event.timeStamp;
    staying = !event.target.matches("[hx-post]");
  }, true);
  document.addEventListener("htmx:beforeRequest", function (event) {
    var form = event.target;
    if (form.matches && form.matches("form[data-keys], form[data-undo]")) {
      if (form.dataset.sent) { event.preventDefault(); return; }
      form.dataset.sent = "1";
    }
  });
  function offline(hidden) {
    var note = document.getElementById("offline");
    if (note) { note.hidden = hidden; }
  }
  document.addEventListener("htmx:sendError", function (event) {
    if (event.target.dataset) { delete event.target.dataset.sent; }
    offline(false);
  });
  function memory(state) { /* browsers may refuse to keep anything */
    try {
      if (state) { window.localStorage.setItem("noracle-guide", state); }
      return window.localStorage.getItem("noracle-guide");
    } catch (error) { return null; }
  }
  function shown() {
    Array.from(document.querySelectorAll("details[data-guide]")).forEach(function (guide) {
      if (memory() === "closed") { guide.open = false; }
      guide.addEventListener("toggle", function () { memory(guide.open ? "open" : "closed"); });
    });
    var undo = document.querySelector("form[data-undo]"), more = document.querySelector("[data-amend]");
    if (undo && more) {
      more.hidden = true;
      window.setTimeout(function () { more.hidden = false; undo.remove(); }, 1000 * undo.dataset.undo);
    }
  }
  document.addEventListener("htmx:afterSwap", function (event) {
    if (event.target.id === "comment") { return; }
    offline(true);
    shown();
    var focus = document.querySelector("#question [data-focus]");
    if (focus) { focus.focus(); }
  });
  document.addEventListener("click", function (event) {
    var copy = event.target.closest && event.target.closest("button[data-copy]");
    if (copy) {
      var source = document.getElementById(copy.dataset.copy), done = function () { copy.textContent = copy.dataset.copied; };
      window.getSelection().selectAllChildren(source);
      if (navigator.clipboard) { navigator.clipboard.writeText(source.textContent).then(done, function () {}); } else if (document.execCommand("copy")) { done(); }
      return;
    }
    var zoom = document.getElementById("zoom"), link = event.target.closest("a"), by = event.target.closest("#zoom button");
    if (link && link.closest("[data-amend]")) { staying = true; }
    if (zoom && link && link.matches("[data-zoom]")) {
      event.preventDefault();
      var source = link.querySelector("img"), image = source.cloneNode();
      zoom.querySelector("div").replaceChildren(image);
      zoom.dataset.size = Math.min(100, 75 * window.innerHeight / window.innerWidth * source.naturalWidth / source.naturalHeight) || 100; /* all of it */
      image.style.width = zoom.dataset.size + "%";
      zoom.showModal();
    } else if (by) {
      var size = zoom.dataset.size * by.dataset.by;
      if (!size) { zoom.close(); return; }
      zoom.dataset.size = Math.min(800, Math.max(25, size));
      zoom.querySelector("img").style.width = zoom.dataset.size + "%";
    }
  });
  window.addEventListener("pagehide", function () {
    var leave = document.querySelector("form[data-leave]");
    if (leave && !staying && document.querySelector("form[data-undo]")) { navigator.sendBeacon(leave.action, new URLSearchParams(new FormData(leave))); }
  });
  window.setInterval(function () {
    var live = document.querySelector("[data-tick]");
    if (live && !document.hidden && window.htmx && !live.contains(document.activeElement)) { window.htmx.trigger(live, "tick"); }
  }, 5000);
  shown();
})();
