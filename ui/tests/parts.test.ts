// Parts of the page that tell what happened, and the graph under somebody's hand: against an agent in a sandbox if
// KILTER_PROGRAM names its program, or else against the stand-in.
import type { Page } from 'playwright-core';
import { describe, expect, it } from 'vitest';
import { declare } from './agent';
import { goTo, itemsInGraph, picture, plan, shared } from './visit';

const LINK = 'linux/link/parts/br0';

const house = shared({
  then: (agent) => declare(agent, 'kind: netns\nname: parts\n---\nkind: bridge\nname: br0\nnetns: parts\naddresses: [10.70.0.1/24]\n', 'parts'),
});
const { come } = house;

describe('what happened', () => {
  it('a_transaction_that_failed_says_what_went_wrong_in_the_words_of_the_kernel', async () => {
    const page = await come('#/plan');
    const outcome = page.getByRole('region', { name: 'outcome', exact: true });
    // A kernel that is busy with others may not answer in time, which is another failure.
    await expect.poll(async () => {
      await plan(page, 'kind: bridge\nname: huge\nnetns: parts\nmtu: 65536\n', 'parts');
      await page.getByRole('button', { name: 'Apply', exact: true }).click();
      await outcome.getByText('reverted', { exact: true }).waitFor();
      return outcome.innerText();
    }).toMatch(/EINVAL.*mtu greater than device maximum/);
    await picture(page, 'failed-apply');
    await outcome.getByRole('link', { name: /^Transaction #/ }).click();
    const wrong = page.getByRole('region', { name: 'What went wrong' });
    await wrong.getByText(/EINVAL.*mtu greater than device maximum/).waitFor();
    await wrong.getByRole('link', { name: 'linux/link/parts/huge' }).waitFor();
    const steps = page.getByRole('list', { name: 'steps that were carried out' });
    await steps.getByRole('listitem').filter({ hasText: 'mtu greater than device maximum' }).first().waitFor();
    await page.getByText('Nothing that was there was disturbed.').waitFor();
    await picture(page, 'failed');
    await goTo(page, '#/events?failed=yes');
    const event = page.getByRole('listitem').filter({ hasText: '1 failure' }).first();
    await event.locator('summary').click();
    await event.getByText(/mtu greater than device maximum/).waitFor();
    await picture(page, 'failed-event');
  });

  it('an_event_has_its_follow_ups_under_it_and_says_what_each_handler_did', async () => {
    const page = await come('#/items');
    const moment = { start: '2026-11-18T10:00:00Z', stop: '2026-11-18T10:00:00.02Z', failures: [], conflicts: [] };
    const events = [
      { ...moment, seq: 40, name: 'Pod Added', description: 'Pod Added\n* shop/web', method: 'update, forward, revert on failure', txn: 9, handlers: [{ handler: 'pods', change: 'put tap/web', revert: false, error: '' }, { handler: 'addresses', change: '', revert: true, error: 'no address is left in 10.0.0.0/30' }] },
      { ...moment, seq: 41, follow_up_to: 40, name: 'Address Taken', description: '', method: 'update, forward, best effort', txn: 0, handlers: [] },
      { ...moment, seq: 42, follow_up_to: 41, name: 'Route Wanted', description: '', method: 'update, forward, best effort', txn: 0, handlers: [] },
    ];
    await page.route('**/api/v1/events*', (route) => route.fulfill({ json: { events } }));
    await page.reload();
    await goTo(page, '#/events/40');
    const rows = page.getByRole('listitem');
    const row = (name: string): ReturnType<Page['locator']> => rows.filter({ hasText: name });
    await row('Pod Added').getByText('1 follow-up', { exact: true }).waitFor();
    const told = await row('Pod Added').getByRole('row').allInnerTexts();
    expect(told.join('\n')).toMatch(/pods\s+put tap\/web[\s\S]*addresses \(revert\)\s+nothing\s+no address is left in 10\.0\.0\.0\/30/);
    await row('Pod Added').getByRole('link', { name: 'transaction #9' }).waitFor();
    const indent = async (name: string): Promise<number> => (await row(name).locator('details').boundingBox())?.x ?? -1;
    expect(await indent('Address Taken')).toBeGreaterThan(await indent('Pod Added'));
    expect(await indent('Route Wanted')).toBeGreaterThan(await indent('Address Taken'));
    expect(await row('Route Wanted').innerText()).toContain('follow-up to 41');
    await picture(page, 'event-handlers');
  });

  it('an_item_has_its_value_field_by_field_and_its_timeline', async () => {
    await declare(house.agent, 'kind: bridge\nname: br0\nnetns: parts\nmtu: 1400\naddresses: [10.70.0.1/24]\n', 'parts');
    const page = await come(`#/item/${LINK}`);
    const value = page.getByRole('region', { name: 'Value' });
    const field = (name: string): Promise<string[]> => value.getByRole('row').filter({ has: page.getByRole('rowheader', { name, exact: true }) }).getByRole('cell').allInnerTexts();
    await expect.poll(async () => (await field('mtu')).map((cell) => cell.trim())).toEqual(['1400', 'the same', '1400']);
    expect((await field('netns')).map((cell) => cell.trim())).toEqual(['parts', 'the same', 'parts']);
    const moments = page.getByRole('region', { name: 'Timeline' }).getByRole('listitem');
    await expect.poll(() => moments.count()).toBeGreaterThan(1);
    expect(await moments.first().innerText()).toMatch(/^update[\s\S]*CONFIGURED[\s\S]*#\d+[\s\S]*mtu/);
    expect(await moments.last().innerText()).toMatch(/^create[\s\S]*NONEXISTENT[\s\S]*CONFIGURED[\s\S]*#\d+/);
    await picture(page, 'item');
  });

  it('a_long_timeline_is_read_further_when_asked_for', async () => {
    for (let index = 0; index < 55; index += 1) await declare(house.agent, `kind: bridge\nname: long\nnetns: parts\nmtu: ${1300 + index}\n`, 'long');
    const page = await come('#/item/linux/link/parts/long');
    const timeline = page.getByRole('region', { name: 'Timeline' });
    await expect.poll(() => timeline.getByRole('listitem').count()).toBe(50);
    expect(await timeline.getByRole('listitem').last().innerText()).not.toMatch(/^create/);
    await timeline.getByRole('button', { name: 'Read earlier ones' }).click();
    await expect.poll(() => timeline.getByRole('listitem').count()).toBe(55);
    expect(await timeline.getByRole('listitem').last().innerText()).toMatch(/^create/);
    expect(await timeline.getByRole('button', { name: 'Read earlier ones' }).count()).toBe(0);
  });

  it('whoever_has_nothing_to_declare_begins_with_an_example', async () => {
    const page = await come('#/plan');
    await page.getByRole('button', { name: 'Plan an example' }).click();
    await page.getByRole('tab', { name: 'example.yaml' }).waitFor();
    const steps = page.getByRole('list', { name: 'steps of the plan' });
    for (const key of ['linux/netns/example', 'linux/link/example/lan']) await steps.getByText(key, { exact: true }).waitFor();
    await picture(page, 'example');
  });

  it('a_plan_that_makes_an_item_again_says_what_that_disturbs', async () => {
    const page = await come('#/plan');
    await plan(page, 'kind: dummy\nname: br0\nnetns: parts\naddresses: [10.70.0.1/24]\n', 'parts');
    const blast = page.getByRole('region', { name: 'blast radius' });
    await blast.getByRole('region', { name: 'items made again' }).getByText('kind bridge → dummy').waitFor();
    await blast.getByRole('region', { name: 'links down' }).getByText(LINK).waitFor();
    await page.getByRole('list', { name: 'steps of the plan' }).getByText('made again: kind bridge → dummy').waitFor();
    // One link is disturbed, in two ways.
    await page.getByRole('button', { name: 'Apply, disturbing 1 item', exact: true }).waitFor();
    await picture(page, 'made-again');
  });
});

describe('the graph under a hand', () => {
  const scale = async (page: Page): Promise<number> => Number(await page.locator('canvas').getAttribute('data-scale'));
  const at = async (page: Page): Promise<number[]> => ((await page.locator('canvas').getAttribute('data-at')) ?? '').split(' ').map(Number);

  /** Clicks until a vertex is met, beside what lies over the picture, and says where that was. */
  const clickVertex = async (page: Page): Promise<[number, number]> => {
    const box = await page.locator('canvas').boundingBox();
    if (!box) throw new Error('the graph has no place');
    let met: [number, number] | undefined;
    await expect.poll(async () => {
      for (let x = box.x + 240; x < box.x + box.width - 400; x += 40) {
        for (let y = box.y + 140; y < box.y + box.height - 140; y += 20) {
          await page.mouse.click(x, y);
          if ((await page.getByRole('region', { name: 'chosen vertex' }).count()) > 0) return (met = [x, y]);
        }
      }
      return met;
    }, { message: 'there is a vertex' }).toBeDefined();
    return met ?? [0, 0];
  };

  it('is_dragged_without_choosing_anything', async () => {
    const page = await come('#/graph');
    await expect.poll(() => scale(page)).toBeGreaterThan(0);
    const [before, size, box] = [await at(page), await scale(page), await page.locator('canvas').boundingBox()];
    if (!box) throw new Error('the graph has no place');
    const [x, y] = [box.x + box.width / 2, box.y + box.height / 2];
    await page.mouse.move(x, y);
    await page.mouse.down();
    for (let step = 1; step <= 10; step += 1) await page.mouse.move(x - 12 * step, y + 6 * step);
    await page.mouse.up();
    const wanted = [(before[0] ?? 0) + 120 / size, (before[1] ?? 0) - 60 / size];
    const apart = async (): Promise<number> => Math.hypot(...(await at(page)).map((each, index) => each - (wanted[index] ?? 0)));
    await expect.poll(apart, { message: 'the picture has moved with the pointer' }).toBeLessThan(2 / size);
    expect(await scale(page)).toBe(size);
    expect(await page.getByRole('region', { name: 'chosen vertex' }).count()).toBe(0);
    await page.getByRole('button', { name: 'Show everything' }).click();
    await expect.poll(() => at(page)).toEqual(before);
  });

  it('grows_under_the_pointer_and_by_its_buttons', async () => {
    const page = await come('#/graph');
    await expect.poll(() => scale(page)).toBeGreaterThan(0);
    const [first, size, box] = [await at(page), await scale(page), await page.locator('canvas').boundingBox()];
    if (!box) throw new Error('the graph has no place');
    const [x, y] = [box.width / 3, box.height / 3];
    await page.mouse.move(box.x + x, box.y + y);
    await page.mouse.wheel(0, -400);
    await expect.poll(() => scale(page)).toBeGreaterThan(size);
    // What is under the pointer stays under it.
    const [grown, moved] = [await scale(page), await at(page)];
    expect(Math.abs((moved[0] ?? 0) + x / grown - ((first[0] ?? 0) + x / size))).toBeLessThan(2 / size);
    expect(Math.abs((moved[1] ?? 0) + y / grown - ((first[1] ?? 0) + y / size))).toBeLessThan(2 / size);
    await page.getByRole('button', { name: 'Zoom out' }).click();
    await expect.poll(() => scale(page)).toBeLessThan(grown);
    await page.getByRole('button', { name: 'Zoom in' }).click();
    await expect.poll(async () => Math.abs((await scale(page)) - grown)).toBeLessThan(0.001);
  });

  it('a_vertex_is_chosen_with_a_click_and_opened_from_its_panel', async () => {
    const page = await come(`#/graph?focus=${LINK}&depth=1&derived=no`);
    await expect.poll(() => scale(page)).toBeGreaterThan(0);
    await clickVertex(page);
    const chosen = page.getByRole('region', { name: 'chosen vertex' });
    await chosen.getByRole('heading', { name: /^linux\/(link|netns)\/parts/ }).waitFor();
    await chosen.getByRole('link', { name: /^Open/ }).click();
    await page.getByRole('heading', { level: 1, name: /^linux\/(link|netns)\/parts/ }).waitFor();
  });

  it('what_is_chosen_does_not_hide_behind_its_panel', async () => {
    const page = await come('#/graph?kind=linux.netns');
    await expect.poll(() => scale(page)).toBeGreaterThan(0);
    const [size, box] = [await scale(page), await page.locator('canvas').boundingBox()];
    if (!box) throw new Error('the graph has no place');
    const panel = page.getByRole('region', { name: 'chosen vertex' });
    const [x, y] = await clickVertex(page);
    expect(await scale(page), 'a look at one vertex does not make the others smaller').toBe(size);
    await panel.getByRole('button', { name: 'Leave it' }).click();
    // Dragged to where the panel will be, and chosen there.
    const under = box.x + box.width - 120;
    await page.mouse.move(x, y);
    await page.mouse.down();
    for (let step = 1; step <= 10; step += 1) await page.mouse.move(x + ((under - x) * step) / 10, y);
    await page.mouse.up();
    await expect.poll(async () => page.evaluate(() => new Promise((resolve) => { requestAnimationFrame(() => requestAnimationFrame(() => resolve(true))); }))).toBe(true);
    const dragged = await at(page);
    await page.mouse.click(under, y);
    await panel.waitFor();
    await expect.poll(async () => ((await at(page))[0] ?? 0) - (dragged[0] ?? 0)).toBeGreaterThan(200 / size);
    await picture(page, 'chosen');
  });

  it('shows_what_somebody_else_declares_while_it_is_open', async () => {
    const page = await come('#/graph?kind=linux.netns');
    await expect.poll(() => itemsInGraph(page)).toBeGreaterThan(1);
    const before = await itemsInGraph(page);
    await declare(house.agent, 'kind: netns\nname: appears\n', 'somebody-else');
    await expect.poll(() => itemsInGraph(page)).toBe(before + 1);
    await goTo(page, '#/graph?kind=linux.netns&chosen=linux/netns/appears');
    await page.getByRole('region', { name: 'chosen vertex' }).getByText('CONFIGURED').waitFor();
    await picture(page, 'appeared');
  });
});
