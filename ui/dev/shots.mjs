// Pictures of every view against whatever KILTER_URL names, in both themes and two widths, for people to look at.
//
//   KILTER_URL=http://127.0.0.1:7480 node dev/shots.mjs [FOLDER] [NAME...]
import { mkdirSync } from 'node:fs';
import { launch } from '../tests/browser.mjs';

const url = process.env.KILTER_URL ?? 'http://127.0.0.1:7480';
const [folder = new URL('../../target/ui-shots', import.meta.url).pathname, ...names] = process.argv.slice(2);
const VIEWS = {
  graph: '#/graph', focus: '#/graph?focus=linux/link/left/eth0&depth=1&chosen=linux/link/left/eth0', past: '#/graph?at=2', compared: '#/graph?from=1&at=2',
  items: '#/items', item: '#/item/linux/route/left/main/10.9.0.0/16/0', changed: '#/item/linux/link/left/eth0', transactions: '#/transactions', transaction: '#/transaction/2',
  events: '#/events', drift: '#/drift', plan: '#/plan',
};
mkdirSync(folder, { recursive: true });
const browser = await launch();
for (const [width, height, form] of [[1440, 900, 'wide'], [360, 740, 'narrow']]) {
  for (const scheme of ['light', 'dark']) {
    const context = await browser.newContext({ viewport: { width, height }, colorScheme: scheme, deviceScaleFactor: form === 'narrow' ? 2 : 1 });
    const page = await context.newPage();
    page.on('pageerror', (error) => console.log('error', error.message));
    page.on('console', (message) => { if (message.type() === 'error') console.log('console', message.text()); });
    for (const [name, hash] of Object.entries(VIEWS)) {
      if (names.length && !names.includes(name)) continue;
      await page.goto(`${url}/${hash}`);
      await page.reload();
      await page.waitForSelector('main h1');
      await page.waitForFunction(() => document.body.innerText.includes('live') && !document.body.innerText.includes('Reading'));
      await page.waitForTimeout(500);
      await page.screenshot({ path: `${folder}/${name}-${form}-${scheme}.png` });
    }
    await context.close();
  }
}
await browser.close();
