// How long a frame takes while somebody moves through the graph and the list, as one JSON line per case.
//
//   node dev/server.mjs --items 10000 & KILTER_URL=http://127.0.0.1:7480 node dev/measure.mjs
import { launch } from '../tests/browser.mjs';

const url = process.env.KILTER_URL ?? 'http://127.0.0.1:7480';
const browser = await launch();
const page = await (await browser.newContext({ viewport: { width: 1440, height: 900 } })).newPage();

/** Runs something in the page and tells the time between frames meanwhile, in milliseconds. */
async function frames(name, work) {
  await page.evaluate(() => {
    window.frames_ = [];
    window.tasks_ = [];
    let last = performance.now();
    const next = (now) => { window.frames_.push(now - last); last = now; window.going_ = requestAnimationFrame(next); };
    window.going_ = requestAnimationFrame(next);
    window.watching_ = new PerformanceObserver((list) => window.tasks_.push(...list.getEntries().map((entry) => entry.duration)));
    window.watching_.observe({ type: 'longtask' });
  });
  await work();
  const [times, tasks] = await page.evaluate(() => { cancelAnimationFrame(window.going_); window.watching_.disconnect(); return [window.frames_, window.tasks_]; });
  times.sort((one, other) => one - other);
  const at = (part) => Number(times[Math.min(times.length - 1, Math.floor(times.length * part))].toFixed(1));
  console.log(JSON.stringify({ case: name, frames: times.length, p50: at(0.5), p95: at(0.95), p99: at(0.99), most: at(1), long_tasks: tasks.length }));
}

const started = Date.now();
await page.goto(`${url}/#/graph`);
await page.waitForFunction(() => document.querySelector('canvas')?.dataset.scale);
const label = await page.getByRole('application').getAttribute('aria-label');
console.log(JSON.stringify({ case: 'first picture', ms: Date.now() - started, label }));

await page.mouse.move(720, 450);
await frames('zoom', async () => { for (let turn = 0; turn < 60; turn += 1) await page.mouse.wheel(0, turn < 30 ? -60 : 60); });
await frames('pan', async () => {
  await page.mouse.down();
  for (let turn = 0; turn < 90; turn += 1) await page.mouse.move(720 + 300 * Math.sin(turn / 10), 450 + 150 * Math.cos(turn / 10));
  await page.mouse.up();
});
await page.goto(`${url}/#/items`);
await page.getByRole('listitem').first().waitFor();
await page.mouse.move(720, 500);
await frames('scroll the list', async () => { for (let turn = 0; turn < 90; turn += 1) await page.mouse.wheel(0, 900); });
await browser.close();
