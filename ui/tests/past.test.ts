// A past that is longer than what the page reads at first: every transaction can be reached. Against an agent in a
// sandbox if KILTER_PROGRAM names its program, or else against the stand-in.
import type { Page } from 'playwright-core';
import { describe, expect, it } from 'vitest';
import { declare, many } from './agent';
import { goTo, itemsInGraph, picture, program, shared } from './visit';

/** More than the page reads at first. */
const TRANSACTIONS = 1100;

const { come } = shared({
  folder: () => many(1),
  options: ['--past', String(TRANSACTIONS)],
  then: async (agent) => {
    if (!program) return;
    const route = (index: number): string => `kind: route\nnetns: many\ntype: blackhole\ndestination: 10.77.${index >> 8}.${index & 255}/32\n`;
    for (let index = 0; index < TRANSACTIONS; index += 1) await declare(agent, route(index), 'past');
  },
});

const moment = async (page: Page): Promise<number> => Number(await page.getByRole('spinbutton', { name: 'Number of the transaction' }).inputValue());

describe('a long past', () => {
  it('is_listed_to_its_beginning_when_asked_for', async () => {
    const page = await come('#/transactions?idle=yes');
    const list = page.getByRole('list', { name: 'transactions' });
    const sizes = async (): Promise<number> => Number(await list.getByRole('listitem').first().getAttribute('aria-setsize'));
    await expect.poll(sizes).toBeGreaterThanOrEqual(1000);
    await picture(page, 'long-past');
    await page.getByRole('button', { name: 'Read earlier ones' }).click();
    await expect.poll(sizes).toBeGreaterThanOrEqual(TRANSACTIONS);
    expect(await page.getByRole('button', { name: 'Read earlier ones' }).count()).toBe(0);
    await list.focus();
    await page.keyboard.press('End');
    await list.getByRole('link').filter({ hasText: /^#1\b/ }).waitFor();
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { level: 1, name: 'Transaction #1', exact: true }).waitFor();
    await page.getByRole('link', { name: '#2 →' }).click();
    await page.getByRole('heading', { level: 1, name: 'Transaction #2', exact: true }).waitFor();
  });

  it('is_reached_by_number_by_slider_and_by_key', async () => {
    const page = await come('#/graph');
    await expect.poll(() => itemsInGraph(page)).toBeGreaterThan(1000);
    await page.getByRole('spinbutton', { name: 'Number of the transaction' }).fill('20');
    await page.keyboard.press('Enter');
    await expect.poll(() => page.getByRole('application').getAttribute('aria-label')).toContain('after transaction 20');
    await expect.poll(() => itemsInGraph(page)).toBeLessThan(200);
    await page.getByRole('button', { name: 'Back to now' }).click();
    const slider = page.getByRole('slider', { name: 'Moment' });
    await expect.poll(() => slider.isEnabled(), { message: 'the transactions are read' }).toBe(true);
    await slider.focus();
    await page.keyboard.press('Home');
    await expect.poll(() => moment(page)).toBeGreaterThan(20);
    const first = await moment(page);
    // One further back than is known.
    await page.getByRole('application').focus();
    await page.keyboard.press('[');
    await expect.poll(() => moment(page)).toBe(first - 1);
    await slider.focus();
    await page.keyboard.press('Home');
    await expect.poll(() => moment(page)).toBe(1);
    await picture(page, 'first-moment');
    await goTo(page, '#/graph');
  });
});
