// How the page behaves whoever reads it: narrow and wide, dark and light, by keys, read aloud, with a connection that
// comes and goes. Against the agent that KILTER_URL names, or against the stand-in.
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { launch } from './browser.mjs';
import { standIn, type Served } from './stand-in';
import { goTo, itemsInGraph, picture, visit } from './visit';

const given = process.env['KILTER_URL'];
const VIEWS = ['graph', 'items', 'transactions', 'events', 'drift', 'plan'];

let browser: Browser;
let agent: Served;

beforeAll(async () => {
  browser = await launch();
  agent = given ? { url: given.replace(/\/$/, ''), stop: () => {} } : await standIn();
});
afterAll(async () => {
  await browser?.close();
  agent?.stop();
});

const settled = async (page: Page): Promise<void> => {
  await page.locator('main h1').first().waitFor({ state: 'attached' });
  await expect.poll(() => page.locator('main').innerText()).not.toMatch(/Reading|Laying out/);
};

/** Everything that can be operated and has no name to be called by. */
const nameless = (page: Page): Promise<string[]> =>
  page.evaluate(() =>
    [...document.querySelectorAll<HTMLElement>('button, a[href], input, select, textarea, [role="application"], [role="slider"]')]
      .filter((element) => {
        if (element.closest('dialog:not([open])') || element.hidden) return false;
        const labels = 'labels' in element ? [...((element as HTMLInputElement).labels ?? [])] : [];
        const name = [element.getAttribute('aria-label'), element.textContent, element.title, ...labels.map((label) => label.innerText)].join('').trim();
        return name === '' && !element.querySelector('img[alt]:not([alt=""])');
      })
      .map((element) => element.outerHTML.slice(0, 120)),
  );

describe('every view', () => {
  for (const scheme of ['light', 'dark'] as const) {
    for (const width of [360, 1440]) {
      it(`opens_${scheme}_at_${width}_points_without_an_error_and_fits`, async () => {
        const { page, errors, close } = await visit(browser, agent.url, '#/graph', { width, scheme });
        for (const view of VIEWS) {
          await goTo(page, `#/${view}`);
          await settled(page);
          const over = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
          expect(over, `${view} is wider than the screen`).toBeLessThanOrEqual(0);
          expect(await nameless(page), `${view} has something without a name`).toEqual([]);
          expect(await page.locator('main h1').count(), `${view} has one heading`).toBe(1);
          await picture(page, `${view}-${width}-${scheme}`);
        }
        expect(errors).toEqual([]);
        await close();
      });
    }
  }

  it('has_landmarks_and_live_regions', async () => {
    const { page, close } = await visit(browser, agent.url, '#/items');
    for (const role of ['main', 'navigation', 'banner', 'search'] as const) expect(await page.getByRole(role).count(), role).toBeGreaterThan(0);
    expect(await page.locator('[aria-live="polite"]').count()).toBe(1);
    expect(await page.locator('[aria-live="assertive"]').count()).toBe(1);
    expect(await page.getByRole('navigation').locator('[aria-current="page"]').innerText()).toContain('Items');
    await close();
  });
});

describe('keys', () => {
  it('lead_to_every_view_and_move_the_focus_to_its_heading', async () => {
    const { page, close } = await visit(browser, agent.url, '#/graph');
    for (const [key, title] of [['i', 'Items'], ['t', 'Transactions'], ['e', 'Events'], ['d', 'Drift and healing'], ['p', 'Plan']]) {
      await page.keyboard.press('g');
      await page.keyboard.press(key as string);
      await page.getByRole('heading', { level: 1, name: title as string }).waitFor();
      await expect.poll(() => page.evaluate(() => document.activeElement?.textContent)).toBe(title);
    }
    await close();
  });

  it('walk_a_list_of_which_only_a_part_is_in_the_document', async () => {
    const { page, close } = await visit(browser, agent.url, '#/items');
    await settled(page);
    await page.getByRole('list', { name: 'items' }).focus();
    await page.keyboard.press('End');
    const last = page.getByRole('listitem').last();
    const key = await last.getByRole('link').innerText();
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { level: 1, name: key }).waitFor();
    await close();
  });

  it('can_be_switched_off', async () => {
    const { page, close } = await visit(browser, agent.url, '#/items');
    await page.keyboard.press('?');
    await page.getByLabel('Single keys are shortcuts').uncheck();
    await page.getByRole('button', { name: 'Close' }).click();
    await page.keyboard.press('g');
    await page.keyboard.press('t');
    await page.keyboard.press('?');
    expect(await page.getByRole('dialog').count()).toBe(0);
    expect(await page.getByRole('heading', { level: 1 }).innerText()).toBe('Items');
    await close();
  });
});

describe('the theme', () => {
  it('follows_the_system_until_it_is_chosen_and_is_kept', async () => {
    const { page, close } = await visit(browser, agent.url, '#/items', { scheme: 'dark' });
    const ground = (): Promise<string> => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    const dark = await ground();
    await page.getByLabel('Theme').selectOption('light');
    await expect.poll(ground).not.toBe(dark);
    const light = await ground();
    await page.reload();
    await page.getByText('live', { exact: true }).waitFor();
    expect(await ground()).toBe(light);
    await close();
  });
});

describe('the connection', () => {
  it('that_is_lost_is_told_and_everything_is_read_again_when_it_is_back', async () => {
    const { page, close } = await visit(browser, agent.url, '#/items', { live: false });
    await page.getByText('live', { exact: true }).waitFor();
    await page.context().route('**/api/v1/watch*', (route) => route.abort());
    await page.reload();
    await page.getByText('The connection to the agent is lost.').first().waitFor();
    await page.getByText('connection lost').waitFor();
    await picture(page, 'lost');
    await page.context().unroute('**/api/v1/watch*');
    await page.getByText('live', { exact: true }).waitFor();
    expect(await page.getByText('The connection to the agent is lost.').count()).toBeLessThanOrEqual(1);
    await close();
  });

  it.skipIf(given)('that_breaks_goes_on_from_its_cursor', async () => {
    const own = await standIn();
    const { page, close } = await visit(browser, own.url, '#/items');
    const asked: string[] = [];
    page.on('request', (request) => { if (request.url().includes('/watch')) asked.push(new URL(request.url()).searchParams.get('cursor') ?? ''); });
    own.stop();
    await page.getByText('connection lost').waitFor();
    await expect.poll(() => asked.length, { timeout: 20_000 }).toBeGreaterThan(0);
    expect(asked[0]).toMatch(/-\d+$/);
    await close();
  });

  it.skipIf(given)('of_a_stranger_needs_a_token', async () => {
    const own = await standIn('--token', 'open sesame');
    const { page, close } = await visit(browser, own.url, '#/items', { live: false });
    await page.getByLabel('Token').fill('guess');
    await page.getByRole('button', { name: 'Enter' }).click();
    await page.getByText('The agent does not know this token.').waitFor();
    await page.getByLabel('Token').fill('open sesame');
    await page.getByRole('button', { name: 'Enter' }).click();
    await page.getByText('live', { exact: true }).waitFor();
    await page.getByRole('heading', { level: 1, name: 'Items' }).waitFor();
    await close();
    own.stop();
  });
});

describe('ten thousand items', () => {
  it.skipIf(given)('are_seen_at_once_and_listed_with_few_rows_in_the_document', async () => {
    const own = await standIn('--items', '10000');
    const { page, errors, close } = await visit(browser, own.url, '#/graph');
    await expect.poll(() => itemsInGraph(page), { timeout: 30_000 }).toBeGreaterThan(9_900);
    await expect.poll(() => page.locator('canvas').getAttribute('data-scale'), { timeout: 30_000 }).not.toBeNull();
    await picture(page, 'ten-thousand');
    await goTo(page, '#/items');
    await expect.poll(() => page.getByRole('listitem').count(), { timeout: 30_000 }).toBeGreaterThan(5);
    expect(await page.getByRole('listitem').count()).toBeLessThan(80);
    expect(errors).toEqual([]);
    await close();
    own.stop();
  });
});
