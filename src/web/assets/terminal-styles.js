// Styles of xterm.js without weakening the Content-Security-Policy, which forbids styles within a
// page. The emulator creates <style> elements and style attributes; here the former become style
// sheets constructed by a script and the latter single properties, both of which the policy allows.
"use strict";

(() => {
  const create = Document.prototype.createElement;
  Document.prototype.createElement = function (name, ...rest) {
    if (String(name).toLowerCase() !== "style") return create.call(this, name, ...rest);
    const sheet = new CSSStyleSheet();
    document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];
    // A placeholder for the style element, which shows nothing.
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
