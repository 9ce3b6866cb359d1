"use strict";
// Live values: context usage, new log records; and a page ends with the access that it was shown by.
(function () {
  var body = document.body;
  if (!window.EventSource || body.dataset.live === undefined) return;
  var rows = document.getElementById("records");
  var source = new EventSource("/live" + (rows ? "?log=1" : ""));
  function cell(row, text) {
    var made = document.createElement("td");
    made.textContent = text === null || text === undefined ? "" : String(text);
    row.appendChild(made);
  }
  source.onmessage = function (event) {
    var told = JSON.parse(event.data);
    if (body.dataset.live !== told.access.join(" ")) { source.close(); window.location.replace(window.location.href); return; }
    Object.keys(told.fill || {}).forEach(function (name) {
      document.querySelectorAll('[data-fill="' + name + '"]').forEach(function (one) { one.textContent = told.fill[name]; });
    });
    (told.log || []).forEach(function (record) {
      var row = document.createElement("tr");
      cell(row, record.at); cell(row, record.level); cell(row, record.agent); cell(row, record.event);
      cell(row, Object.keys(record.more).map(function (name) { return name + "=" + record.more[name]; }).join(" "));
      rows.insertBefore(row, rows.firstChild);
    });
  };
})();
