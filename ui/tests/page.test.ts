// The page in a real browser, against the agent that KILTER_URL names, or against the stand-in.
//
// KILTER_BREAK is a command that removes the link `br0` of the namespace `page1` behind the agent's back; without it
// (and without the stand-in) drift is not tried.
import { execSync } from 'node:child_process';
import type { Browser } from 'playwright-core';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { launch } from './browser.mjs';
import { standIn, type Served } from './stand-in';
import { becomes, goTo, itemsInGraph, picture, plan, visit, type Visit } from './visit';

const given = process.env['KILTER_URL'];
const breaking = process.env['KILTER_BREAK'];
const SPACE = 'linux/netns/page1';
const LINK = 'linux/link/page1/br0';
const BASE = 'kind: netns\nname: page1\n---\nkind: bridge\nname: br0\nnetns: page1\n';
const ROUTE = 'kind: route\nnetns: page1\ndestination: 10.60.0.0/16\nvia: 10.50.0.1\nlink: nowhere\n';

let browser: Browser;
let agent: Served;
let open: Visit[] = [];

beforeAll(async () => {
  browser = await launch();
  agent = given ? { url: given.replace(/\/$/, ''), stop: () => {} } : await standIn();
});
afterAll(async () => {
  await browser?.close();
  agent?.stop();
});
afterEach(async () => {
  const errors = open.flatMap((each) => each.errors);
  await Promise.all(open.map((each) => each.close()));
  open = [];
  expect(errors, 'errors in the console').toEqual([]);
});

const come = async (hash: string, manner = {}): Promise<Visit['page']> => {
  const visited = await visit(browser, agent.url, hash, manner);
  open.push(visited);
  return visited.page;
};

describe('applying', () => {
  it('a_declaration_is_planned_applied_and_becomes_configured', async () => {
    const page = await come('#/plan');
    await plan(page, BASE);
    await page.getByRole('list', { name: 'steps of the plan' }).getByText(LINK).waitFor();
    await picture(page, 'planned');
    await page.getByRole('button', { name: 'Apply', exact: true }).click();
    await page.getByRole('region', { name: 'outcome' }).getByText('applied').waitFor();
    await picture(page, 'applied');
    await becomes(page, LINK, 'CONFIGURED');
    await picture(page, 'configured');
  });

  it('an_applied_declaration_plans_nothing_more', async () => {
    const page = await come('#/plan');
    await plan(page, BASE);
    await page.getByText('Nothing has to be done.').waitFor();
    expect(await page.getByRole('button', { name: 'Apply', exact: true }).isDisabled()).toBe(true);
  });

  it('an_error_is_shown_at_its_line_and_nothing_can_be_applied', async () => {
    const page = await come('#/plan');
    await plan(page, 'kind: netns\nname: page2\n---\nkind: bridge\nname: br0\nnetns: page2\nadresses: [10.0.0.1/24]\n');
    const wrong = page.getByRole('list', { name: /what is wrong/ }).getByRole('listitem').first();
    await wrong.waitFor();
    expect(await wrong.innerText()).toMatch(/page\.yaml:7:1/);
    expect(await page.getByRole('button', { name: 'Apply', exact: true }).count()).toBe(0);
    await wrong.getByRole('button').click();
    expect(await page.evaluate(() => (document.activeElement as HTMLTextAreaElement).selectionStart)).toBe(64);
    await picture(page, 'wrong');
  });

  it('what_waits_says_what_it_waits_for', async () => {
    const page = await come('#/plan');
    await plan(page, ROUTE);
    await page.getByRole('button', { name: 'Apply', exact: true }).click();
    await page.getByRole('region', { name: 'outcome' }).getByText('pending').waitFor();
    const key = 'linux/route/page1/main/10.60.0.0/16/0';
    await becomes(page, key, 'PENDING');
    const why = page.getByRole('region', { name: 'Why it stands where it stands' });
    await why.getByText('linux/up/page1/nowhere').first().waitFor();
    expect(await why.getByRole('listitem').count()).toBeGreaterThan(1);
    await picture(page, 'pending');
    await goTo(page, '#/drift');
    await page.getByRole('list', { name: 'items that are not where they should be' }).getByText(key).waitFor();
    await goTo(page, `#/graph?focus=${key}&depth=1`);
    await page.getByText('unmet', { exact: true }).first().waitFor();
    await picture(page, 'pending-graph');
  });
});

describe('drift', () => {
  it.skipIf(Boolean(given) && !breaking)('what_somebody_removes_is_put_back_and_told', async () => {
    const page = await come(`#/item/${LINK}`);
    await becomes(page, LINK, 'CONFIGURED');
    const newest = (): Promise<number> => page.evaluate(async () => ((await (await fetch('./api/v1/transactions?last=1')).json()) as { transactions: { seq: number }[] }).transactions.at(-1)?.seq ?? 0);
    const before = await newest();
    if (breaking) execSync(breaking, { stdio: 'inherit' });
    else await page.evaluate(async (key) => { await fetch('./dev/break', { method: 'POST', body: JSON.stringify({ key }) }); }, LINK);
    await expect.poll(newest, { timeout: 30_000 }).toBeGreaterThan(before);
    await becomes(page, LINK, 'CONFIGURED');
    await goTo(page, '#/drift');
    await page.getByRole('region', { name: 'Healed by the agent' }).getByRole('link', { name: /^#\d+$/ }).first().waitFor();
    await picture(page, 'healed');
  });

  it('healing_is_paused_and_resumed', async () => {
    const page = await come('#/drift');
    await page.getByLabel('Key or beginning of keys to pause').fill(SPACE);
    await page.getByRole('button', { name: 'Pause healing' }).click();
    const paused = page.getByRole('region', { name: 'Left alone' });
    await paused.getByText(SPACE).waitFor();
    await paused.getByRole('button', { name: 'Resume' }).click();
    await paused.getByText('Nothing is paused.').waitFor();
  });
});

describe('confirmation', () => {
  const more = 'kind: bridge\nname: br1\nnetns: page1\n';
  const KEY = 'linux/link/page1/br1';

  const applyWithin = async (page: Visit['page']): Promise<void> => {
    await plan(page, more, 'trial');
    await page.getByRole('combobox', { name: /^confirmation/ }).selectOption('30s');
    await page.getByRole('button', { name: 'Apply', exact: true }).click();
    await page.getByRole('region', { name: 'confirmation' }).waitFor();
  };

  it('an_unconfirmed_change_counts_down_on_every_view_and_is_taken_back', async () => {
    const page = await come('#/plan');
    await applyWithin(page);
    const timer = page.getByRole('timer');
    const first = await timer.innerText();
    expect(first).toMatch(/^0:[0-3]\d$/);
    for (const hash of ['#/items', '#/events', '#/graph']) {
      await goTo(page, hash);
      expect(await timer.isVisible()).toBe(true);
    }
    await picture(page, 'countdown');
    await expect.poll(() => timer.innerText()).not.toBe(first);
    await page.getByRole('region', { name: 'confirmation' }).waitFor({ state: 'detached', timeout: 60_000 });
    await goTo(page, '#/items');
    await page.getByRole('searchbox', { name: 'Filter by key' }).fill(KEY);
    await page.getByText('No item passes the filter.').waitFor();
    await picture(page, 'taken-back');
  });

  it('an_extended_one_gets_time_and_a_confirmed_one_stays', async () => {
    const page = await come('#/plan');
    await applyWithin(page);
    await page.getByRole('button', { name: /^Extend/ }).click();
    await expect.poll(() => page.getByRole('timer').innerText()).toMatch(/^(2:00|1:5\d)$/);
    await page.getByRole('button', { name: 'Confirm', exact: true }).click();
    await page.getByRole('region', { name: 'confirmation' }).waitFor({ state: 'detached' });
    await becomes(page, KEY, 'CONFIGURED');
  });

  it('one_can_be_taken_back_at_once', async () => {
    const page = await come('#/plan');
    await plan(page, 'kind: bridge\nname: br2\nnetns: page1\n', 'trial');
    await page.getByRole('combobox', { name: /^confirmation/ }).selectOption('2m');
    await page.getByRole('button', { name: 'Apply', exact: true }).click();
    await page.getByRole('button', { name: 'Take back' }).click();
    await page.getByRole('region', { name: 'confirmation' }).waitFor({ state: 'detached' });
    await goTo(page, '#/items?text=linux/link/page1/br2');
    await page.getByText('No item passes the filter.').waitFor();
  });
});

describe('time', () => {
  it('the_slider_shows_the_graph_as_it_was', async () => {
    const page = await come('#/graph');
    await expect.poll(() => itemsInGraph(page)).toBeGreaterThan(1);
    const now = await itemsInGraph(page);
    const slider = page.getByRole('slider', { name: 'Moment' });
    await slider.focus();
    await page.keyboard.press('Home');
    await expect.poll(() => itemsInGraph(page)).toBeLessThan(now);
    expect(await page.getByRole('application').getAttribute('aria-label')).toMatch(/after transaction \d+/);
    await page.getByText('touched by it').waitFor();
    await picture(page, 'past');
    await page.getByRole('button', { name: 'Back to now' }).click();
    await expect.poll(() => itemsInGraph(page)).toBe(now);
  });

  it('two_moments_are_compared', async () => {
    const page = await come('#/graph');
    await expect.poll(() => itemsInGraph(page)).toBeGreaterThan(1);
    await page.getByRole('button', { name: 'Compare' }).click();
    await page.getByRole('slider', { name: 'First moment' }).focus();
    await page.keyboard.press('Home');
    await expect.poll(async () => Number((await page.getByText(/items? differ/).innerText()).split(/\D/)[0])).toBeGreaterThan(0);
    await picture(page, 'compared');
  });

  it('a_transaction_is_reverted_to_with_a_plan_first', async () => {
    const page = await come('#/plan');
    await plan(page, 'kind: bridge\nname: br3\nnetns: page1\n', 'later');
    await page.getByRole('button', { name: 'Apply', exact: true }).click();
    const outcome = page.getByRole('region', { name: 'outcome' });
    const name = await outcome.getByRole('link', { name: /^Transaction #/ }).innerText();
    const seq = Number(name.replace(/\D/g, ''));
    await goTo(page, `#/transaction/${seq - 1}`);
    await page.getByRole('button', { name: /^Revert to it/ }).click();
    const panel = page.getByRole('region', { name: `Back to how it was after #${seq - 1}` });
    await panel.getByRole('list', { name: 'steps of the plan' }).getByText('linux/link/page1/br3').waitFor();
    await picture(page, 'revert-plan');
    await panel.getByRole('button', { name: /^Apply/ }).click();
    await panel.getByRole('region', { name: 'outcome' }).getByText('applied').waitFor();
    await goTo(page, '#/items?text=linux/link/page1/br3');
    await page.getByText('No item passes the filter.').waitFor();
  });
});

describe('the graph', () => {
  it('a_vertex_is_found_chosen_and_opened_without_a_pointer', async () => {
    const page = await come('#/graph');
    await expect.poll(() => itemsInGraph(page)).toBeGreaterThan(1);
    await page.keyboard.press('/');
    await page.keyboard.type('link page1 br0');
    await page.getByRole('option').first().waitFor();
    await page.keyboard.press('Enter');
    await page.getByRole('region', { name: 'chosen vertex' }).getByRole('heading', { name: LINK }).waitFor();
    await page.getByRole('application').focus();
    await page.keyboard.press('f');
    await page.getByRole('group', { name: 'focus' }).getByText(LINK).waitFor();
    await picture(page, 'focused');
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { level: 1, name: LINK }).waitFor();
    expect(await page.evaluate(() => document.activeElement?.tagName)).toBe('H1');
  });

  it('wheel_and_keys_zoom', async () => {
    const page = await come('#/graph');
    const scale = async (): Promise<number> => Number(await page.locator('canvas').getAttribute('data-scale'));
    await expect.poll(scale).toBeGreaterThan(0);
    const first = await scale();
    await page.locator('canvas').hover();
    await page.mouse.wheel(0, -300);
    await expect.poll(scale).toBeGreaterThan(first);
    await page.getByRole('application').focus();
    await page.keyboard.press('0');
    await expect.poll(scale).toBe(first);
    await page.keyboard.press('-');
    await expect.poll(scale).toBeLessThan(first);
  });
});
