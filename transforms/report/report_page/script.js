"use strict";
(() => {
  const find = (selector, inside = document) => inside.querySelector(selector);
  const all = (selector, inside = document) => [...inside.querySelectorAll(selector)];
  const text = (element) => element.textContent.toLowerCase();

  // Rows of a long table and files of a long list that are there before somebody asks for more.
  const FIRST_ROWS = 48;
  const FIRST_FILES = 8;

  // Pictures open large. Tab reaches one of each list, arrows the others.
  const large = find("#large");
  const zooms = all("img.zoom").map((image) => {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "zoom";
    image.replaceWith(button);
    button.append(image);
    return button;
  });
  let opened = null;
  const seen = (button) => !button.closest("[hidden]");
  const open = (button) => {
    opened = button;
    const image = find("img", button);
    const lines = image.dataset.about.split("\n").map((line, at) => {
      const paragraph = document.createElement("p");
      paragraph.textContent = line;
      paragraph.id = at ? "" : "large-name";
      return paragraph;
    });
    find("figure", large).replaceChildren(image.cloneNode(), ...lines);
    if (!large.open) large.showModal();
  };
  const beside = (button, step) => {
    const shown = zooms.filter(seen);
    return shown[(shown.indexOf(button) + step + shown.length) % shown.length];
  };
  const reach = () => {
    const lists = new Set();
    for (const button of zooms.filter(seen)) {
      const list = button.closest("ul");
      button.tabIndex = lists.has(list) ? -1 : 0;
      lists.add(list);
    }
  };
  zooms.forEach((button) => button.addEventListener("click", () => open(button)));
  all("button", large).forEach((button, at) =>
    button.addEventListener("click", () => (at === 2 ? large.close() : open(beside(opened, at ? 1 : -1)))),
  );
  large.addEventListener("click", (event) => event.target === large && large.close());
  large.addEventListener("close", () => opened.focus());
  document.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    const from = large.open ? opened : event.target.closest("button.zoom");
    if (step && from) {
      event.preventDefault();
      (large.open ? open : (button) => button.focus())(beside(from, step));
    }
  });
  reach();

  const classFilter = find("#class-filter");
  if (classFilter) {
    const table = find("#class-table");
    const body = table.tBodies[0];
    let rows = [...body.rows].map((row, rank) => ({ row, rank, name: text(row.cells[0]) }));
    const sheets = all(".sheet").map((sheet) => ({
      sheet,
      name: sheet.dataset.class.toLowerCase(),
      pictures: all("li", sheet),
    }));
    const splitFilter = find("#split-filter");
    const button = find("#all-classes");
    const columns = document.head.appendChild(document.createElement("style"));
    let isShort = rows.length > FIRST_ROWS + 10;
    let isFew = sheets.length > FIRST_ROWS + 10;
    const more = find("#all-sheets");

    const apply = () => {
      const wanted = classFilter.value.trim().toLowerCase();
      const split = splitFilter ? splitFilter.value : "";
      let shown = 0;
      for (const { row, name } of rows) {
        const isMatch = name.includes(wanted);
        row.hidden = !isMatch || (isShort && shown >= FIRST_ROWS);
        shown += isMatch;
      }
      let pictured = 0;
      for (const { sheet, name, pictures } of sheets) {
        let left = 0;
        for (const picture of pictures) {
          picture.hidden = split !== "" && picture.dataset.split !== split;
          left += !picture.hidden;
        }
        const isMatch = left && name.includes(wanted);
        sheet.hidden = !isMatch || (isFew && pictured >= FIRST_ROWS);
        pictured += isMatch ? 1 : 0;
      }
      if (more) more.hidden = !isFew || pictured <= FIRST_ROWS;
      for (const row of all("#shard-table tbody tr")) {
        row.hidden = split !== "" && row.dataset.split !== split;
      }
      for (const group of all(".group[data-splits]")) {
        group.hidden = split !== "" && !group.dataset.splits.split("|").includes(split);
      }
      const splits = splitFilter ? splitFilter.options.length - 1 : 0;
      const hidden = [];
      for (let at = 1; split !== "" && at <= splits + 1; at += 1) {
        if (at !== splitFilter.selectedIndex) {
          hidden.push(`#class-table tr > :nth-child(${at + 1})`);
        }
      }
      columns.textContent = hidden.length ? `${hidden.join(",")}{display:none}` : "";
      button.hidden = !isShort || shown <= FIRST_ROWS;
      reach();
      find("#class-count").textContent =
        wanted === "" ? "" : `${shown.toLocaleString("en")} of ${rows.length.toLocaleString("en")}`;
    };

    const sortBy = (column, heading) => {
      const sign = heading.getAttribute("aria-sort") === (column ? "descending" : "ascending") ? -1 : 1;
      const value = ({ row }) => Number(row.cells[column].textContent.replaceAll(",", ""));
      rows = column
        ? rows.map((each) => [value(each), each]).sort((a, b) => sign * (b[0] - a[0])).map(([, each]) => each)
        : rows.sort((a, b) => sign * (a.rank - b.rank));
      all("th", table.tHead).forEach((each) => each.removeAttribute("aria-sort"));
      heading.setAttribute("aria-sort", (column === 0) === (sign === 1) ? "ascending" : "descending");
      body.append(...rows.map(({ row }) => row));
      apply();
    };

    classFilter.addEventListener("input", apply);
    splitFilter?.addEventListener("input", apply);
    button.addEventListener("click", () => {
      isShort = false;
      apply();
    });
    more?.addEventListener("click", () => {
      isFew = false;
      apply();
    });
    all("th", table.tHead).forEach((heading, column) =>
      find("button", heading).addEventListener("click", () => sortBy(column, heading)),
    );
    apply();
  }

  const rejectedFilter = find("#rejected-filter");
  if (rejectedFilter) {
    const reasons = all(".reason").map((reason) => {
      const files = all("li", reason).map((file) => ({ file, name: text(file) }));
      const more = document.createElement("button");
      more.type = "button";
      more.textContent = `Show all ${files.length}`;
      find("ul", reason).after(more);
      const state = { reason, code: text(find("code", reason)), files, more, isShort: files.length > FIRST_FILES + 2 };
      more.addEventListener("click", () => {
        state.isShort = false;
        apply();
      });
      return state;
    });
    const apply = () => {
      const wanted = rejectedFilter.value.trim().toLowerCase();
      let total = 0;
      let listed = 0;
      for (const { reason, code, files, more, isShort } of reasons) {
        const isWhole = code.includes(wanted);
        let shown = 0;
        for (const { file, name } of files) {
          const isMatch = isWhole || name.includes(wanted);
          file.hidden = !isMatch || (isShort && shown >= FIRST_FILES);
          shown += isMatch;
        }
        more.hidden = !isShort || shown <= FIRST_FILES;
        reason.hidden = !shown && !isWhole;
        total += shown;
        listed += files.length;
      }
      find("#rejected-count").textContent = wanted === "" ? "" : `${total} of ${listed} listed`;
    };
    rejectedFilter.addEventListener("input", apply);
    apply();
  }

  // Enter in a filter sends nothing.
  all("form").forEach((form) => form.addEventListener("submit", (event) => event.preventDefault()));
})();
