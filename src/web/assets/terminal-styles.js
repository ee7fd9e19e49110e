// Styles of xterm.js without a gap in the Content-Security-Policy, which lets no page write styles into
// its text. The emulator makes <style> elements and style attributes; here the first become style sheets
// that a script constructs and the second single properties, which the policy allows.
"use strict";

(() => {
  const create = Document.prototype.createElement;
  Document.prototype.createElement = function (name, ...rest) {
    if (String(name).toLowerCase() !== "style") return create.call(this, name, ...rest);
    const sheet = new CSSStyleSheet();
    document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];
    // It stands in the page in the place of the style element, and shows nothing.
    const stand = create.call(this, "template");
    Object.defineProperty(stand, "textContent", {
      get: () => "",
      set: (text) => sheet.replaceSync(text),
    });
    Object.defineProperty(stand, "sheet", { get: () => sheet });
    stand.remove = () => {
      document.adoptedStyleSheets = document.adoptedStyleSheets.filter((other) => other !== sheet);
      Element.prototype.remove.call(stand);
    };
    return stand;
  };
  const put = Element.prototype.setAttribute;
  Element.prototype.setAttribute = function (name, value) {
    if (name === "style" && this.style) this.style.cssText = value;
    else put.call(this, name, value);
  };
})();
