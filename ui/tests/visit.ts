// One visit to the page: a tab that remembers every error, and the questions the tests ask of it; and what every file of
// tests begins and ends with, the browser and the agent.
import { mkdirSync } from 'node:fs';
import type { Browser, Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, expect } from 'vitest';
import { agent as keep, type Kept, type Session } from './agent';
import { launch } from './browser.mjs';
import { PATIENCE } from './patience';
import { standIn, type Served } from './stand-in';

/** The program of the agent; the stand-in is asked if there is none. */
export const program = process.env['KILTER_PROGRAM'];

export const SHOTS = process.env['KILTER_SHOTS'] ?? new URL('../../target/page-shots', import.meta.url).pathname;
mkdirSync(SHOTS, { recursive: true });

export interface Visit { page: Page; errors: string[]; close: () => Promise<void> }

export interface Manner { width?: number; height?: number; scheme?: 'light' | 'dark'; live?: boolean; session?: Session | undefined }

/** Opens a view and waits until it shows what is. */
export async function visit(browser: Browser, url: string, hash: string, manner: Manner = {}): Promise<Visit> {
  const { width = 1280, height = 860, scheme = 'light', live = true, session } = manner;
  const context = await browser.newContext({ viewport: { width, height }, colorScheme: scheme, reducedMotion: 'reduce' });
  context.setDefaultTimeout(PATIENCE);
  if (session) await context.addCookies([session]);
  const page = await context.newPage();
  const errors: string[] = [];
  page.on('pageerror', (error) => errors.push(error.message));
  page.on('console', (message) => {
    // That an answer was a refusal is for the page to tell.
    if (message.type() === 'error' && !message.text().startsWith('Failed to load resource')) errors.push(message.text());
  });
  await page.goto(`${url}/${hash}`);
  if (live) await page.getByText('live', { exact: true }).waitFor();
  return { page, errors, close: () => context.close() };
}

/** What the tests of one file share. */
export interface Shared {
  browser: Browser;
  agent: Served & Partial<Kept>;
  /** Opens a view, which is closed after the test; an error in it fails the test. */
  come: (hash: string, manner?: Manner) => Promise<Page>;
}

/**
 * A browser and an agent for the tests of one file: in a sandbox with the declarations of a folder if KILTER_PROGRAM names
 * its program, or else a stand-in with these options.
 */
export function shared(begin: { folder?: () => string; options?: string[]; then?: (agent: Shared['agent']) => Promise<void> } = {}): Shared {
  const open: Visit[] = [];
  const shared = {
    come: async (hash: string, manner: Manner = {}) => {
      const visited = await visit(shared.browser, shared.agent.url, hash, { session: shared.agent.session, ...manner });
      open.push(visited);
      return visited.page;
    },
  } as Shared;
  beforeAll(async () => {
    shared.browser = await launch();
    shared.agent = program ? await keep(program, begin.folder?.()) : await standIn(...(begin.options ?? []));
    await begin.then?.(shared.agent);
  });
  afterAll(async () => {
    await shared.browser?.close();
    shared.agent?.stop();
  });
  afterEach(async () => {
    const visits = open.splice(0);
    await Promise.all(visits.map((each) => each.close()));
    expect(visits.flatMap((each) => each.errors), 'errors in the console').toEqual([]);
  });
  return shared;
}

/** Goes to another view of the same tab. */
export const goTo = (page: Page, hash: string): Promise<void> => page.evaluate((to) => { location.hash = to; }, hash);

/** Everything that can be operated and has no name to be called by. */
export const nameless = (page: Page): Promise<string[]> =>
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

/** A picture for people to look at, of a view that has been read and laid out. */
export async function picture(page: Page, name: string): Promise<void> {
  if (await page.evaluate(() => /^#\/graph/.test(location.hash))) {
    await page.locator('canvas[data-scale]').waitFor();
    await page.getByText(/^(Laying out|Reading)/).first().waitFor({ state: 'detached' });
  }
  await page.screenshot({ path: `${SHOTS}/${name}.png` });
}

/** Plans a declaration on the plan view. */
export async function plan(page: Page, text: string, source = 'page'): Promise<void> {
  await goTo(page, '#/plan');
  await page.getByLabel(/^Text of /).fill(text);
  await page.getByLabel('Source that declares it').fill(source);
  await page.getByRole('button', { name: 'Plan', exact: true }).click();
}

/** The state that the page of an item shows. */
export async function becomes(page: Page, key: string, state: string): Promise<void> {
  await goTo(page, `#/item/${key}`);
  await page.getByRole('heading', { level: 1, name: key }).waitFor();
  await expect.poll(() => page.locator('main header .badge').first().innerText(), { message: `${key} becomes ${state}` }).toBe(state);
}

/** How many items the graph on the screen has. */
export async function itemsInGraph(page: Page): Promise<number> {
  const label = await page.getByRole('application').getAttribute('aria-label');
  return Number(label?.replaceAll('\u202f', '').match(/Graph of (\d+) item/)?.[1] ?? -1);
}
