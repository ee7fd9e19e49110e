// The steps of tests/portal/browser, which starts the cluster and says where chromium and the link
// are. Each step is a sentence that is printed once it holds; the first that does not ends the run.
"use strict";
const os = require("node:os");
const { execFileSync } = require("node:child_process");
const fs = require("node:fs");
const path = require("node:path");
const { chromium } = require("playwright-core");
const axe = fs.readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");

const { LINK, CB, CHROMIUM, SHOTS } = process.env;
const BASE = new URL(LINK).origin;
// Longest wait for what the cluster does; a busy machine is slow.
const PATIENCE = 60000;
const FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
  "--disable-background-networking", "--disable-component-update", "--disable-sync"];
// Pages without a parameter; /jobs/ID and /hosts/NAME come to them.
const PAGES = ["/", "/jobs", "/submit", "/submit/app/sweep", "/terminal", "/files", "/hosts", "/hosts?view=map", "/queues", "/limits", "/shares",
  "/cron", "/resources", "/usage", "/usage?view=efficiency", "/admin", "/admin/config"];

const began = Date.now();
const troubles = [];

function check(holds, text) {
  if (!holds) throw new Error(text);
}

function said(text) {
  console.log(`${((Date.now() - began) / 1000).toFixed(1).padStart(6)} s  ${text}`);
}

function cb(...words) {
  return execFileSync(CB, words, { encoding: "utf8" });
}

// A page whose errors, refused content and requests to other places end the run.
async function newPage(context) {
  const page = await context.newPage();
  page.setDefaultTimeout(PATIENCE);
  page.on("pageerror", (error) => troubles.push(`a script failed: ${error.message}`));
  page.on("console", (message) => {
    const text = message.text();
    if (message.type() === "error" && !/status of (4|5)\d\d/.test(text)) troubles.push(`console: ${text}`);
  });
  page.on("request", (request) => {
    if (!request.url().startsWith(BASE) && !/^(data|blob|about):/.test(request.url())) {
      troubles.push(`a request to another place: ${request.url()}`);
    }
  });
  page.on("dialog", (dialog) => dialog.accept());
  return page;
}

async function go(page, place) {
  const answer = await page.goto(BASE + place);
  check(answer.status() === 200, `${place} answers ${answer.status()}`);
}

// Submits the form with these fields; the ID of the job.
async function submit(page, fields) {
  await go(page, "/submit");
  for (const [name, value] of Object.entries(fields)) {
    const field = page.locator(`[name="${name}"]`).first();
    if (!await field.isVisible()) await page.locator("details summary").first().click();
    await field.fill(value);
  }
  await page.locator('form[action="/submit"] button.first').click();
  await page.waitForURL(/\/jobs\/\d+$/);
  return page.url().match(/\d+$/)[0];
}

async function login(browser) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 } });
  const page = await newPage(context);
  await page.goto(LINK);
  await page.waitForURL(BASE + "/");
  check(!page.url().includes("#"), "the secret stays in the address");
  said("the link logs in");
  const again = await newPage(await browser.newContext());
  await again.goto(LINK);
  await again.locator('[role="alert"]').waitFor();
  check(await again.locator("nav").count() === 0, "the link works twice");
  await again.context().close();
  said("it does so once");
  return page;
}

// An array from the form of a template.
async function watchArray(page) {
  await go(page, "/submit");
  await page.locator('a[href="/submit/app/sweep"]').click();
  await page.waitForURL(/\/submit\/app\/sweep$/);
  for (const [name, value] of [["p.SECONDS", "4"], ["array", "1-8"], ["name", "sweep"]]) {
    const field = page.locator(`[name="${name}"]`);
    if (!await field.isVisible()) await page.locator("main details summary").first().click();
    await field.fill(value);
  }
  await page.locator("main form button.first").click();
  await page.waitForURL(/\/jobs\/\d+$/);
  const id = page.url().match(/\d+$/)[0];
  said("an array is submitted by the form of a template");
  await go(page, `/jobs?array=${id}&finished=yes`);
  await page.evaluate(() => { window.sameDocument = true; });
  const stat = (n) => page.locator("tbody tr", { hasText: `${id}[${n}]` }).locator(".state");
  await page.locator("tbody .state.run").first().waitFor();
  said("the array's elements run");
  await page.waitForFunction(() => document.querySelectorAll("tbody .state.done").length >= 2, null,
    { timeout: PATIENCE });
  check(await page.evaluate(() => window.sameDocument === true), "the page was loaded anew");
  said("they are seen to end without a reload");
  return { id, stat };
}

async function followLog(page) {
  const command = "for n in $(seq 1 60); do echo line $n; sleep 0.5; done";
  const id = await submit(page, { command, name: "talks" });
  // The page of a job that waits has no log yet; state and log appear in it.
  await page.evaluate(() => { window.sameDocument = true; });
  await page.locator("h1 .state.run").waitFor();
  const log = page.locator("pre[data-log]");
  await log.waitFor();
  check(await page.evaluate(() => window.sameDocument === true), "the page was loaded anew");
  said("the page of a job shows that it runs, and its log, without a reload");
  const before = await log.textContent();
  await page.waitForFunction((old) => document.querySelector("pre[data-log]").textContent.length > old,
    before.length + 10, { timeout: PATIENCE });
  said("a log grows on its page");
  await go(page, `/jobs/${id}?find=line%202`);
  const found = await page.locator("pre.log").first().textContent();
  check(/line 2/.test(found) && !/line 1\b/.test(found), `a search finds the wrong lines: ${found}`);
  said("it is searched");
  return id;
}

async function killOne(page) {
  const id = await submit(page, { command: "sleep 300", name: "long", array: "1-3" });
  await go(page, `/jobs?array=${id}`);
  await page.locator("tbody .state.run").first().waitFor();
  await page.locator(`input[value="${id}[1]"]`).check();
  await page.locator('button[name="act"][value="kill"]').click();
  await page.waitForURL(/\/jobs\/act$/);
  await page.locator("main a").last().click();
  await go(page, `/jobs?array=${id}&finished=yes`);
  const row = (n) => page.locator("tbody tr").filter({ has: page.locator(`input[value="${id}[${n}]"]`) });
  await row(1).locator(".state.bad").waitFor();
  check(await row(2).locator(".state.bad").count() === 0, "another element was killed, too");
  said("one element is killed, the others are not");
  return id;
}

// One element again, as it was.
async function cloneOne(page, array) {
  await go(page, `/jobs/${array}[2]`);
  await page.locator('form[action$="/clone"] button').click();
  await page.waitForURL(/\/jobs\/\d+$/);
  const id = page.url().match(/\d+$/)[0];
  check(id !== array, "the same job is shown");
  check((await page.locator("main").innerText()).includes("sleep 300"), "the clone has another command");
  cb("ckill", id);
  said("a job is cloned");
}

// A file goes to the home directory and comes back as it was.
async function files(page) {
  const name = `browser test ${process.pid}.bin`;
  const bytes = Buffer.alloc(5 << 20, "corral ");
  const place = path.join(os.homedir(), name);
  try {
    await go(page, "/files");
    const file = { name, mimeType: "application/octet-stream", buffer: bytes };
    await page.locator('input[type="file"]').setInputFiles(file);
    const row = page.locator("tbody tr", { hasText: name });
    await row.waitFor();
    check(fs.readFileSync(place).equals(bytes), "what was uploaded differs");
    const link = row.locator('a[href*="/files/download"]').first();
    const [download] = await Promise.all([page.waitForEvent("download"), link.click()]);
    check(fs.readFileSync(await download.path()).equals(bytes), "what was downloaded differs");
  } finally {
    fs.rmSync(place, { force: true });
  }
  said("a file is uploaded, and downloaded as it was");
}

// What a terminal shows.
function shown(page) {
  return page.evaluate(() => [...document.querySelectorAll(".xterm-rows > div")]
    .map((row) => row.textContent).join("\n"));
}

async function untilShown(page, what) {
  for (let n = 0; !what.test(await shown(page)); n += 1) {
    check(n < 240, `the terminal shows:\n${await shown(page)}`);
    await page.waitForTimeout(250);
  }
}

async function typeLine(page, words) {
  await page.locator(".xterm-helper-textarea").focus();
  await page.keyboard.type(words);
  await page.keyboard.press("Enter");
}

// A shell in a page: what is typed comes back, colours, a size, a reload, its end.
async function terminal(page) {
  await go(page, "/terminal");
  await page.locator('form[action="/terminal"] button').click();
  await page.waitForURL(/\/terminal\/[0-9a-zA-Z]+$/);
  await untilShown(page, /Starting on h\d/);
  await typeLine(page, "echo $((6 * 7))-$LSB_QUEUE");
  await untilShown(page, /42-\w+/);
  await typeLine(page, "printf '\\033[38;2;10;120;30mtrue\\033[0m \\033[1mbold\\033[0m wide\\n'");
  await untilShown(page, /^true bold wide/m);
  const look = await page.evaluate(() => {
    const of = (text) => [...document.querySelectorAll(".xterm-rows span")]
      .filter((span) => span.textContent.startsWith(text)).slice(-1).map((span) => getComputedStyle(span))[0];
    const row = document.querySelector(".xterm-rows > div").getBoundingClientRect();
    return { green: of("true")?.color, bold: of("bold")?.fontWeight, height: row.height };
  });
  check(look.green === "rgb(10, 120, 30)", `a true colour is ${look.green}`);
  check(Number(look.bold) >= 600, `bold is ${look.bold}`);
  check(look.height > 10, `a row is ${look.height} pixels high`);
  await judge(page, "/terminal/ID", "light");
  for (const [theme, width] of [["light", 1280], ["light", 390], ["dark", 1280], ["dark", 390]]) {
    await page.emulateMedia({ colorScheme: theme });
    await page.setViewportSize({ width, height: width === 390 ? 844 : 900 });
    await page.waitForTimeout(500);
    await isTooWide(page, "/terminal/ID", width);
    if (SHOTS) await page.screenshot({ path: shotName("/terminal-id", "en", theme, width), fullPage: true });
  }
  await page.emulateMedia({ colorScheme: "light" });
  await page.setViewportSize({ width: 1280, height: 900 });
  await page.reload();
  await untilShown(page, /^true bold wide/m);
  await typeLine(page, "exit");
  await page.locator("#term-state", { hasText: /ended/ }).waitFor();
  check(troubles.length === 0, troubles.join(", "));
  said("a shell runs in a page, over a reload, and ends");
}

// What a page of a program can do in the portal.
function reach(tab) {
  return tab.evaluate(async (base) => {
    let read = "refused";
    try { read = (await fetch(`${base}/jobs`, { credentials: "include" })).status; } catch { /* as it must */ }
    const socket = await new Promise((done) => {
      const at = new WebSocket(`${base.replace("http", "ws")}/terminal/x/ws`);
      at.onopen = () => done("open");
      at.onerror = () => done("refused");
    });
    return { read, socket, cookies: document.cookie };
  }, BASE);
}

// The program of a job at a name of its own, with its WebSocket.
async function program(page) {
  const script = path.join(__dirname, "program.py");
  const [out, heard] = ["program.out", "heard"].map((name) => path.join(process.cwd(), name));
  const told = cb("csub", "-n", "2", "-oo", out, `exec python3 ${script} ${heard}`);
  const id = /<(\d+)>/.exec(told)[1];
  for (let n = 0; !(fs.existsSync(out) && fs.readFileSync(out, "utf8").includes("announced")); n += 1) {
    check(n < 240, "the program does not begin");
    await page.waitForTimeout(250);
  }
  const link = page.locator(`a[href="/apps/${id}"]`);
  for (let n = 0; n === 0 || await link.count() === 0; n += 1) {
    check(n < 60, "the job's page has no link to its program");
    await go(page, `/jobs/${id}`);
    await page.waitForTimeout(500);
  }
  if (SHOTS) await page.screenshot({ path: shotName("/jobs-with-program", "en", "light", 1280), fullPage: true });
  const [tab] = await Promise.all([page.context().waitForEvent("page"), link.click()]);
  await tab.waitForURL(`http://j${id}.localhost:${new URL(BASE).port}/`);
  await tab.locator("#said", { hasText: "over and back" }).waitFor();
  const reached = await reach(tab);
  check(reached.read === "refused" && reached.socket === "refused" && reached.cookies === "",
    `a program's page reaches the portal: ${JSON.stringify(reached)}`);
  await tab.close();
  check(!/corral_/.test(fs.readFileSync(heard, "utf8")), "the program got a cookie of the portal's");
  cb("ckill", id);
  said("the program of a job is opened at its own name, and reaches nothing of the portal");
}

async function requeue(page) {
  const id = await submit(page, { command: "sleep 300", name: "again" });
  await page.locator(".state.run").first().waitFor();
  await go(page, `/jobs/${id}`);
  await page.locator('button[name="act"][value="requeue"]').click();
  await page.waitForURL(/\/jobs\/act$/);
  check(await page.locator("main .state.run").count() === 1, await page.locator("main").innerText());
  for (let n = 0; !/requeue/i.test(cb("chist", "-l", id)); n += 1) {
    check(n < 60, "the history says nothing of the requeue");
    await page.waitForTimeout(500);
  }
  said("a job is requeued");
  cb("ckill", id);
}

// An administrator closes a host and opens it again.
async function closeHost(page) {
  const act = async (word, comment) => {
    await go(page, "/admin");
    const form = page.locator("form", { has: page.locator('input[value="hosts"]') });
    await form.locator('input[value="h3"]').check();
    await form.locator('[name="comment"]').fill(comment);
    await form.locator(`button[value="${word}"]`).click();
    await page.waitForURL(/\/admin\/act$/);
    check(await page.locator("main .state.run").count() === 1, await page.locator("main").innerText());
  };
  await act("close", "new disk");
  check(/closed_Adm/.test(cb("chosts", "-w", "h3")), "the host is not closed");
  await go(page, "/hosts");
  await page.locator("tbody tr", { hasText: "h3" }).locator("td", { hasText: "new disk" }).waitFor();
  await act("open", "");
  check(!/closed_Adm/.test(cb("chosts", "-w", "h3")), "the host is not open again");
  said("an administrator closes a host, with a comment, and opens it");
  await go(page, "/admin");
  await page.locator('form[action="/admin/check"] button').click();
  await page.waitForURL(/\/admin\/check$/);
  check(await page.locator("pre").count() === 2, "the check of the cluster says nothing");
  said("the check of the whole cluster is shown");
}

// cb.yaml: a mistake with its caret, the effects of a change before it is saved.
async function configuration(page) {
  await go(page, "/admin/config");
  const text = await page.locator("textarea").inputValue();
  const send = async (next) => {
    await page.locator("textarea").fill(next);
    await page.locator('form[action="/admin/config/check"] button').click();
    await page.waitForURL(/\/admin\/config\/check$/);
  };
  await send(`${text}\nnonsense: 1\n`);
  check(/nonsense[\s\S]*\^/.test(await page.locator('[role="alert"] pre').innerText()), "no caret");
  check(await page.locator('form[action="/admin/config/save"]').count() === 0, "a wrong text may be saved");
  const queue = "- {name: browser, priority: 7}\n";
  check(/^queues:\n/m.test(text), "the configuration of the cluster has another form");
  const next = text.replace(/^queues:\n/m, `queues:\n${/^queues:\n( *)-/m.exec(text)[1]}${queue}`);
  await send(next);
  await page.locator("th", { hasText: "queues[browser]" }).waitFor();
  if (SHOTS) await page.screenshot({ path: path.join(SHOTS, "admin-config-check.png"), fullPage: true });
  await page.locator('form[action="/admin/config/save"] button').click();
  await page.waitForURL(/\/admin\/config\/save$/);
  await page.locator('[role="status"]').waitFor();
  check(/\bbrowser\b/.test(cb("cqueues", "-w")), "the saved configuration is not in force");
  said("cb.yaml is checked, its effects are shown, it is saved and in force");
}

// Charts are drawn from their tables, also after the page has renewed itself.
async function charts(page, job) {
  await go(page, `/jobs/${job}`);
  for (let n = 0; await page.locator("figure.chart canvas").count() < 4; n += 1) {
    check(n < 60, "the job's page draws no charts");
    await page.waitForTimeout(1000);
    await go(page, `/jobs/${job}`);
  }
  await page.locator("figure.chart summary").first().click();
  check(await page.locator("figure.chart tbody tr").first().isVisible(), "no numbers below a chart");
  // A renewed page has other numbers and, in one chart, another column.
  const renewed = await page.evaluate(async () => {
    const text = await (await fetch(location.href)).text();
    const next = new DOMParser().parseFromString(text, "text/html");
    const [first, second] = next.querySelectorAll("figure.chart details table");
    first.querySelector("tbody td").textContent = "41.5";
    second.querySelector("thead th:last-child").textContent = "renamed";
    document.dispatchEvent(new CustomEvent("renewed", { detail: next }));
    return document.querySelector("figure.chart details tbody td").textContent;
  });
  check(renewed === "41.5", `a renewed chart has ${renewed}`);
  check((await page.locator("figure.chart .u-legend").nth(1).innerText()).includes("renamed"),
    "a renewed chart keeps its old legend");
  check(troubles.length === 0, troubles.join(", "));
  said("charts of a job's use are drawn, with their numbers, and renewed");
}

async function language(page) {
  await go(page, "/hosts?find=h");
  await page.locator('button[lang="zh-CN"]').click();
  await page.waitForFunction(() => document.documentElement.lang === "zh-CN");
  check(page.url().endsWith("/hosts?find=h"), `the way back leads to ${page.url()}`);
  check((await page.locator("h1").innerText()) === "主机", "the page is not in Chinese");
  await page.locator('button[lang="en"]').click();
  await page.waitForFunction(() => document.documentElement.lang === "en");
  said("the language changes, and the place stays");
}

// From the address bar to a filtered list of jobs and a job's page, by keys alone.
async function keyboard(page) {
  await go(page, "/");
  await page.keyboard.press("Tab");
  const skip = await page.evaluate(() => document.activeElement.className);
  check(skip === "skip", `the first Tab reaches ${skip}`);
  await page.keyboard.press("Enter");
  check(await page.evaluate(() => document.activeElement.id) === "main", "the skip link moves no focus");
  const tabTo = async (what, text) => {
    for (let n = 0; n < 60; n += 1) {
      await page.keyboard.press("Tab");
      if (await page.evaluate(what)) {
        const seen = await page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle);
        check(seen !== "none", `no outline shows the focus on ${text}`);
        return;
      }
    }
    throw new Error(`no Tab reaches ${text}`);
  };
  await go(page, "/");
  await tabTo(() => document.activeElement.getAttribute("href") === "/jobs", "the menu's jobs");
  await page.keyboard.press("Enter");
  await page.waitForURL(BASE + "/jobs");
  await tabTo(() => document.activeElement.name === "filter", "the filter");
  await page.keyboard.type("long");
  await page.keyboard.press("Enter");
  await page.waitForURL(/filter=long/);
  await tabTo(() => /^\/jobs\/\d+/.test(document.activeElement.getAttribute("href") || ""), "a job");
  await page.keyboard.press("Enter");
  await page.waitForURL(/\/jobs\/\d+/);
  check((await page.locator("main").innerText()).includes("long"), "another job is shown");
  said("keys alone lead to a job");
}

// Reading without scripts.
async function withoutScripts(browser, state, job) {
  const context = await browser.newContext({ javaScriptEnabled: false, storageState: state });
  const page = await newPage(context);
  await go(page, "/jobs?filter=long");
  check(await page.locator("tbody tr").count() > 0, "no job is listed without scripts");
  await go(page, `/jobs/${job}`);
  check(/line \d/.test(await page.locator("pre.log").first().innerText()), "no log without scripts");
  await go(page, "/");
  check(await page.locator("table").count() >= 2, "no tables without scripts");
  await context.close();
  said("pages are read without JavaScript");
}

function shotName(place, lang, theme, width) {
  const name = place === "/" ? "overview" : place.slice(1).replace(/[^a-z0-9]+/gi, "-");
  return path.join(SHOTS, `${name}-${lang}-${theme}-${width}.png`);
}

// What axe-core finds that hinders people, and what a phone cannot show.
async function judge(page, place, theme) {
  await page.evaluate(axe);
  const found = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
  for (const fault of found.violations) {
    if (["serious", "critical"].includes(fault.impact)) {
      const where = fault.nodes.slice(0, 3).map((node) => node.target.join(" ")).join(", ");
      troubles.push(`${place} ${theme}: ${fault.id}: ${fault.help}: ${where}`);
    }
  }
}

async function isTooWide(page, place, width) {
  const over = await page.evaluate(() => {
    const root = document.documentElement;
    return root.scrollWidth - root.clientWidth;
  });
  if (over > 0) troubles.push(`${place} is ${over} pixels wider than ${width}`);
}

async function eachPage(browser, state, more) {
  let n = 0;
  for (const theme of ["light", "dark"]) {
    for (const width of [1280, 390]) {
      // Colours do not make a page wider.
      if (!SHOTS && theme === "dark" && width === 390) continue;
      const viewport = { width, height: width === 390 ? 844 : 900 };
      const context = await browser.newContext({ viewport, storageState: state, colorScheme: theme });
      const page = await newPage(context);
      for (const place of [...PAGES, ...more]) {
        await go(page, place);
        await isTooWide(page, place, width);
        if (width === 1280) await judge(page, place, theme);
        if (SHOTS) await page.screenshot({ path: shotName(place, "en", theme, width), fullPage: true });
        n += 1;
      }
      if (SHOTS && theme === "light") {
        await context.addCookies([{ name: "corral_lang", value: "zh-CN", url: BASE }]);
        for (const place of [...PAGES, ...more]) {
          await go(page, place);
          await isTooWide(page, place, width);
          await page.screenshot({ path: shotName(place, "zh", theme, width), fullPage: true });
        }
      }
      await context.close();
    }
  }
  const anyone = await newPage(await browser.newContext({ viewport: { width: 390, height: 844 } }));
  await anyone.goto(BASE + "/login");
  await judge(anyone, "/login", "light");
  await isTooWide(anyone, "/login", 390);
  if (SHOTS) await anyone.screenshot({ path: shotName("/login", "en", "light", 390) });
  said(`${n} views of pages are looked at: axe-core, widths${SHOTS ? `, pictures in ${SHOTS}` : ""}`);
}

async function run(browser) {
  const page = await login(browser);
  await watchArray(page);
  const talks = await followLog(page);
  const long = await killOne(page);
  await cloneOne(page, long);
  await requeue(page);
  await files(page);
  await terminal(page);
  await program(page);
  await closeHost(page);
  await configuration(page);
  await charts(page, `${long}[2]`);
  await language(page);
  await keyboard(page);
  const state = await page.context().storageState();
  await withoutScripts(browser, state, talks);
  const more = [`/jobs/${talks}`, `/jobs/${long}[2]`, `/jobs?array=${long}&finished=yes`];
  const host = cb("chosts", "-w").split("\n")[1].split(" ")[0];
  await eachPage(browser, state, [...more, `/hosts/${host}`]);
  await page.close();
  check(troubles.length === 0, [...new Set(troubles)].join("\n  "));
}

(async () => {
  if (SHOTS) fs.mkdirSync(SHOTS, { recursive: true });
  const browser = await chromium.launch({ executablePath: CHROMIUM, args: FLAGS });
  try {
    await run(browser);
    said("all of it holds");
  } catch (error) {
    console.error(`failed: ${error.message}`);
    for (const trouble of new Set(troubles)) console.error(`  ${trouble}`);
    process.exitCode = 1;
  } finally {
    await browser.close();
  }
})();
