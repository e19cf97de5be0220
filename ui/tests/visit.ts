// One visit to the page: a tab that remembers every error, and the questions the tests ask of it.
import { mkdirSync } from 'node:fs';
import type { Browser, Page } from 'playwright-core';
import { expect } from 'vitest';

export const SHOTS = process.env['KILTER_SHOTS'] ?? new URL('../../target/page-shots', import.meta.url).pathname;
mkdirSync(SHOTS, { recursive: true });

export interface Visit { page: Page; errors: string[]; close: () => Promise<void> }

export interface Manner { width?: number; height?: number; scheme?: 'light' | 'dark'; live?: boolean }

/** Opens a view and waits until it shows what is. */
export async function visit(browser: Browser, url: string, hash: string, manner: Manner = {}): Promise<Visit> {
  const { width = 1280, height = 860, scheme = 'light', live = true } = manner;
  const context = await browser.newContext({ viewport: { width, height }, colorScheme: scheme, reducedMotion: 'reduce' });
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

/** Goes to another view of the same tab. */
export const goTo = (page: Page, hash: string): Promise<void> => page.evaluate((to) => { location.hash = to; }, hash);

/** A picture for people to look at. */
export const picture = (page: Page, name: string): Promise<unknown> => page.screenshot({ path: `${SHOTS}/${name}.png` });

/** Plans a declaration on the plan view. */
export async function plan(page: Page, text: string, source = 'page'): Promise<void> {
  await goTo(page, '#/plan');
  await page.getByLabel(/^Text of /).fill(text);
  await page.getByLabel('Source that declares it').fill(source);
  await page.getByRole('button', { name: 'Plan', exact: true }).click();
}

/** The state that the page of an item shows. */
export async function becomes(page: Page, key: string, state: string, within = 30_000): Promise<void> {
  await goTo(page, `#/item/${key}`);
  await page.getByRole('heading', { level: 1, name: key }).waitFor();
  await expect.poll(() => page.locator('main header .badge').first().innerText(), { timeout: within, message: `${key} becomes ${state}` }).toBe(state);
}

/** How many items the graph on the screen has. */
export async function itemsInGraph(page: Page): Promise<number> {
  const label = await page.getByRole('application').getAttribute('aria-label');
  return Number(label?.replaceAll('\u202f', '').match(/Graph of (\d+) item/)?.[1] ?? -1);
}
