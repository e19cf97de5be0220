// How long a frame takes while somebody moves through ten thousand items, as one JSON line per case: what lies between
// two frames (the middle one, 95 and 99 of 100, the longest), how many tasks took longer than 50 ms, and the processor's
// time: that of the page's own thread, and that of all of the browser, which draws without a graphics processor here.
//
//   KILTER_PROGRAM=../target/debug/kilter node dev/measure.mjs    # an agent in a sandbox; see `cargo xtask browser --measure`
//   KILTER_URL=http://127.0.0.1:7480 node dev/measure.mjs         # whatever answers there
//
// KILTER_ITEMS says how many items there are; 10 000 otherwise.
import { fileURLToPath } from 'node:url';
import { runnerImport } from 'vite';
import { launch } from '../tests/browser.mjs';

const ITEMS = Number(process.env.KILTER_ITEMS ?? 10_000);
/** How long the page may take to be ready on a busy machine, in milliseconds. */
const PATIENCE = 120_000;

/** The agent to measure: one that is there, or one of our own. */
async function served() {
  if (process.env.KILTER_URL) return { url: process.env.KILTER_URL, session: undefined, stop: () => {} };
  if (!process.env.KILTER_PROGRAM) throw new Error('neither KILTER_PROGRAM nor KILTER_URL is set');
  const { module } = await runnerImport(fileURLToPath(new URL('../tests/agent.ts', import.meta.url)), { configFile: false, logLevel: 'warn' });
  return module.agent(process.env.KILTER_PROGRAM, module.many(ITEMS));
}

const agent = await served();
const browser = await launch();
const context = await browser.newContext({ viewport: { width: 1440, height: 900 } });
context.setDefaultTimeout(PATIENCE);
if (agent.session) await context.addCookies([agent.session]);
const page = await context.newPage();
const [whole, own] = [await browser.newBrowserCDPSession(), await context.newCDPSession(page)];
await own.send('Performance.enable');

const say = (line) => console.log(JSON.stringify(line));

/** The processor's time so far, in milliseconds: of the page's thread, and of all of the browser. */
async function processor() {
  const [{ metrics }, { processInfo }] = [await own.send('Performance.getMetrics'), await whole.send('SystemInfo.getProcessInfo')];
  const page = (metrics.find((metric) => metric.name === 'TaskDuration')?.value ?? 0) * 1000;
  return { page, browser: processInfo.reduce((sum, each) => sum + each.cpuTime, 0) * 1000 };
}

/** Does something in the page and tells the time between frames meanwhile, in milliseconds. */
async function frames(name, work) {
  await page.evaluate(() => {
    window.frames_ = [];
    window.tasks_ = 0;
    let last = performance.now();
    const next = (now) => { window.frames_.push(now - last); last = now; window.going_ = requestAnimationFrame(next); };
    window.going_ = requestAnimationFrame(next);
    window.watching_ = new PerformanceObserver((list) => { window.tasks_ += list.getEntries().length; });
    window.watching_.observe({ type: 'longtask' });
  });
  const before = await processor();
  await work();
  const after = await processor();
  const [times, tasks] = await page.evaluate(() => { cancelAnimationFrame(window.going_); window.watching_.disconnect(); return [window.frames_, window.tasks_]; });
  times.sort((one, other) => one - other);
  const at = (part) => Number(times[Math.min(times.length - 1, Math.floor(times.length * part))].toFixed(1));
  say({
    case: name, items: ITEMS, frames: times.length, p50_ms: at(0.5), p95_ms: at(0.95), p99_ms: at(0.99), max_ms: at(1), long_tasks: tasks,
    page_cpu_ms: Math.round(after.page - before.page), browser_cpu_ms: Math.round(after.browser - before.browser),
  });
}

try {
  const [started, idle] = [Date.now(), await processor()];
  await page.goto(`${agent.url}/#/graph`);
  await page.waitForFunction(() => document.querySelector('canvas')?.dataset.scale);
  const first = await processor();
  const label = await page.getByRole('application').getAttribute('aria-label');
  say({ case: 'first picture', items: ITEMS, ms: Date.now() - started, page_cpu_ms: Math.round(first.page - idle.page), browser_cpu_ms: Math.round(first.browser - idle.browser), label });

  await page.mouse.move(720, 450);
  await frames('zoom the graph', async () => { for (let turn = 0; turn < 60; turn += 1) await page.mouse.wheel(0, turn < 30 ? -60 : 60); });
  await frames('pan the graph', async () => {
    await page.mouse.down();
    for (let turn = 0; turn < 90; turn += 1) await page.mouse.move(720 + 300 * Math.sin(turn / 10), 450 + 150 * Math.cos(turn / 10));
    await page.mouse.up();
  });
  await frames('search', async () => {
    await page.getByRole('combobox', { name: 'Find in the graph' }).pressSequentially('route 10.0.12', { delay: 40 });
    await page.keyboard.press('Escape');
  });
  await page.goto(`${agent.url}/#/items`);
  await page.getByRole('listitem').first().waitFor();
  await page.mouse.move(720, 500);
  await frames('scroll the list', async () => { for (let turn = 0; turn < 90; turn += 1) await page.mouse.wheel(0, 900); });
  await frames('filter the list', async () => { await page.getByRole('searchbox', { name: 'Filter by key' }).pressSequentially('route 10.0.12', { delay: 40 }); });
} finally {
  await browser.close();
  agent.stop();
}
