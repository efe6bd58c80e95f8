/* Keys 1 … 9 press the button or choose the answer of that number; focus follows the question; the dashboard asks for news while it is seen; a button copies. */
(function () {
  "use strict";
  function question() { return document.querySelector("form[data-keys]"); }
  function groups(form) { return Array.from(form.querySelectorAll("fieldset[data-group]")); }
  function press(form, key) {
    var button = form.querySelector('button[data-key="' + key + '"]');
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
    var form = question();
    if (!form || event.ctrlKey || event.altKey || event.metaKey || event.repeat || !/^[1-9]$/.test(event.key)) { return; }
    var tag = event.target.tagName;
    if (tag === "SELECT" || tag === "TEXTAREA" || (tag === "INPUT" && event.target.type !== "radio")) { return; }
    if (press(form, event.key)) { event.preventDefault(); }
  });
  document.addEventListener("htmx:beforeRequest", function (event) {
    var form = event.target;
    if (form.matches && form.matches("form[data-keys]")) {
      if (form.dataset.sent) { event.preventDefault(); return; }
      form.dataset.sent = "1";
    }
  });
  document.addEventListener("htmx:sendError", function (event) {
    if (event.target.dataset) { delete event.target.dataset.sent; }
    var note = document.getElementById("offline");
    if (note) { note.hidden = false; }
  });
  document.addEventListener("htmx:afterSwap", function () {
    var focus = document.querySelector("#question [data-focus]");
    if (focus) { focus.focus(); }
  });
  document.addEventListener("click", function (event) {
    var button = event.target.closest && event.target.closest("button[data-copy]");
    if (!button) { return; }
    var source = document.getElementById(button.dataset.copy);
    function done() { button.textContent = button.dataset.copied; }
    window.getSelection().selectAllChildren(source);
    if (navigator.clipboard) { navigator.clipboard.writeText(source.textContent).then(done, function () {}); } else if (document.execCommand("copy")) { done(); }
  });
  window.setInterval(function () {
    var live = document.querySelector("[data-tick]");
    if (live && !document.hidden && window.htmx && !live.contains(document.activeElement)) { window.htmx.trigger(live, "tick"); }
  }, 5000);
})();
