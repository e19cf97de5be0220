// How the page behaves whoever reads it: narrow and wide, dark and light, by keys, read aloud, with a connection that
// comes and goes. Against an agent in a sandbox if KILTER_PROGRAM names its program, or else against the stand-in.
import type { Browser, Page } from 'playwright-core';
import { describe, expect, it, onTestFinished } from 'vitest';
import { agent as keep, announced, declare, many, post, type Kept } from './agent';
import { relay } from './relay';
import { standIn, type Served } from './stand-in';
import { goTo, itemsInGraph, nameless, picture, program, shared, visit as visitAs, type Manner, type Visit } from './visit';

const VIEWS = ['graph', 'items', 'transactions', 'events', 'drift', 'plan'];

const house = shared();

const visit = (of: Browser, url: string, hash: string, manner: Manner = {}): Promise<Visit> =>
  visitAs(of, url, hash, { ...manner, session: house.agent.session });

const settled = async (page: Page): Promise<void> => {
  await page.locator('main h1').first().waitFor({ state: 'attached' });
  await expect.poll(() => page.locator('main').innerText()).not.toMatch(/Reading|Laying out/);
};

describe('every view', () => {
  for (const scheme of ['light', 'dark'] as const) {
    for (const width of [360, 1440]) {
      it(`opens_${scheme}_at_${width}_points_without_an_error_and_fits`, async () => {
        const { page, errors, close } = await visit(house.browser, house.agent.url, '#/graph', { width, scheme });
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
    const { page, close } = await visit(house.browser, house.agent.url, '#/items');
    for (const role of ['main', 'navigation', 'banner', 'search'] as const) expect(await page.getByRole(role).count(), role).toBeGreaterThan(0);
    expect(await page.locator('[aria-live="polite"]').count()).toBe(1);
    expect(await page.locator('[aria-live="assertive"]').count()).toBe(1);
    expect(await page.getByRole('navigation').locator('[aria-current="page"]').innerText()).toContain('Items');
    await close();
  });
});

describe('keys', () => {
  it('lead_to_every_view_and_move_the_focus_to_its_heading', async () => {
    const { page, close } = await visit(house.browser, house.agent.url, '#/graph');
    for (const [key, title] of [['i', 'Items'], ['t', 'Transactions'], ['e', 'Events'], ['d', 'Drift and healing'], ['p', 'Plan']]) {
      // On a busy machine more than a moment may pass between two keys, and then they are two and not one.
      await expect.poll(async () => {
        await page.keyboard.press('g');
        await page.keyboard.press(key as string);
        return page.getByRole('heading', { level: 1 }).innerText();
      }).toBe(title);
      await expect.poll(() => page.evaluate(() => document.activeElement?.textContent)).toBe(title);
    }
    await close();
  });

  it('walk_a_list_of_which_only_a_part_is_in_the_document', async () => {
    const { page, close } = await visit(house.browser, house.agent.url, '#/items');
    await settled(page);
    await page.getByRole('list', { name: 'items' }).focus();
    await page.keyboard.press('End');
    // The end of the list is drawn a moment later.
    const last = page.getByRole('list', { name: 'items' }).locator('.entry.active');
    await expect.poll(() => last.evaluate((entry) => entry.getAttribute('aria-posinset') === entry.getAttribute('aria-setsize'))).toBe(true);
    const key = await last.getByRole('link').innerText();
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { level: 1, name: key }).waitFor();
    await close();
  });

  it('can_be_switched_off', async () => {
    const { page, close } = await visit(house.browser, house.agent.url, '#/items');
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
    const { page, close } = await visit(house.browser, house.agent.url, '#/items', { scheme: 'dark' });
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
    const { page, close } = await visit(house.browser, house.agent.url, '#/items', { live: false });
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

  it('that_breaks_goes_on_from_its_cursor_and_misses_nothing', async () => {
    const way = await relay(house.agent.url);
    onTestFinished(() => way.stop());
    const { page, close } = await visit(house.browser, way.url, '#/items');
    await settled(page);
    await page.getByRole('searchbox', { name: 'Filter by key' }).fill('linux/netns/meanwhile');
    await page.getByText('No item passes the filter.').waitFor();
    const asked: string[] = [];
    page.on('request', (request) => { if (request.url().includes('/watch')) asked.push(new URL(request.url()).searchParams.get('cursor') ?? ''); });
    way.cut();
    await page.getByText('connection lost').waitFor();
    await declare(house.agent, 'kind: netns\nname: meanwhile\n', 'meanwhile');
    way.mend();
    await page.getByText('live', { exact: true }).waitFor();
    await page.getByRole('list', { name: 'items' }).getByText('linux/netns/meanwhile').waitFor();
    expect(asked.length).toBeGreaterThan(0);
    for (const cursor of asked) expect(cursor).toMatch(/[-:]\d+/);
    await close();
  });

  it('over_which_no_end_of_a_confirmation_comes_is_not_relied_on', async () => {
    const way = await relay(house.agent.url);
    onTestFinished(() => way.stop());
    const { page, close } = await visit(house.browser, way.url, '#/items');
    await declare(house.agent, 'kind: netns\nname: unheard\n', 'unheard', { confirm: { within: '15m' } });
    const bar = page.getByRole('region', { name: 'confirmation' });
    await bar.waitFor();
    way.garble('confirmation');
    await post(house.agent, 'confirmation/confirm', {});
    await bar.waitFor({ state: 'detached' });
    await close();
  });

  it('of_a_stranger_needs_a_token', async () => {
    const said = program ? await announced(program) : undefined;
    const own = said ?? (await standIn('--token', 'open sesame'));
    onTestFinished(() => own.stop());
    const url = said ? said.page.origin : (own as Served).url;
    const { page, close } = await visitAs(house.browser, url, '#/items', { live: false });
    await page.getByLabel('Token').fill('guess');
    await page.getByRole('button', { name: 'Enter' }).click();
    await page.getByText('The agent does not know this token.').waitFor();
    await picture(page, 'stranger');
    await page.getByLabel('Token').fill(said ? said.page.href : 'open sesame');
    await page.getByRole('button', { name: 'Enter' }).click();
    await page.getByText('live', { exact: true }).waitFor();
    await page.getByRole('heading', { level: 1, name: 'Items' }).waitFor();
    await close();
  });
});

describe('ten thousand items', () => {
  it('are_seen_at_once_and_listed_with_few_rows_in_the_document', async () => {
    const own: Served & Partial<Kept> = program ? await keep(program, many(10_000)) : await standIn('--items', '10000');
    onTestFinished(() => own.stop());
    const { page, errors, close } = await visitAs(house.browser, own.url, '#/graph', { session: own.session });
    await expect.poll(() => itemsInGraph(page)).toBeGreaterThan(9_900);
    await expect.poll(() => page.locator('canvas').getAttribute('data-scale')).not.toBeNull();
    await picture(page, 'ten-thousand');
    await goTo(page, '#/items');
    await expect.poll(() => page.getByRole('listitem').count()).toBeGreaterThan(5);
    expect(await page.getByRole('listitem').count()).toBeLessThan(80);
    expect(errors).toEqual([]);
    await close();
  });
});
