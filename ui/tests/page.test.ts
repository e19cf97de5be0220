// The page in a real browser, against an agent in a sandbox if KILTER_PROGRAM names its program, or else against the
// stand-in.
import { execSync } from 'node:child_process';
import { describe, expect, it } from 'vitest';
import { becomes, goTo, itemsInGraph, picture, plan, shared, type Visit } from './visit';

const SPACE = 'linux/netns/page1';
const LINK = 'linux/link/page1/br0';
const BASE = 'kind: netns\nname: page1\n---\nkind: bridge\nname: br0\nnetns: page1\n';
const ROUTE = 'kind: route\nnetns: page1\ndestination: 10.60.0.0/16\nvia: 10.50.0.1\nlink: nowhere\n';

const house = shared();
const { come } = house;

/** The transactions that the agent remembers, the oldest first. */
const transactions = async (page: Visit['page']): Promise<number[]> => {
  const said = await page.evaluate(async () => (await fetch('./api/v1/transactions')).json() as Promise<{ transactions: { seq: number }[] }>);
  return said.transactions.map((txn) => txn.seq);
};

/** What a transaction did something to. */
const touched = async (page: Visit['page'], seq: number): Promise<string[]> => {
  interface Did { key: string; action: string }
  const said = await page.evaluate(async (seq) => (await fetch(`./api/v1/transactions/${seq}`)).json() as Promise<{ planned?: Did[]; executed?: Did[]; as_planned?: boolean }>, seq);
  const steps = (said.as_planned ? said.planned : said.executed) ?? [];
  return steps.filter((step) => /create|update|delete/i.test(step.action)).map((step) => step.key);
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

  it('files_that_are_dropped_are_planned_together_and_others_are_refused', async () => {
    const page = await come('#/plan');
    const dropped = async (files: Record<string, string>): Promise<void> => {
      const carried = await page.evaluateHandle((files) => {
        const carried = new DataTransfer();
        for (const [name, text] of Object.entries(files)) carried.items.add(new File([text], name));
        return carried;
      }, files);
      for (const event of ['dragover', 'drop']) await page.getByRole('heading', { name: 'Plan', level: 1 }).dispatchEvent(event, { dataTransfer: carried });
    };
    await dropped({ 'picture.png': 'no document' });
    await page.getByText('Only YAML files can be read.').waitFor({ state: 'attached' });
    await dropped({ 'base.yaml': BASE, 'more.yml': 'kind: bridge\nname: dropped\nnetns: page1\n' });
    for (const name of ['base.yaml', 'more.yml']) await page.getByRole('tab', { name }).waitFor();
    await page.getByRole('button', { name: 'Plan', exact: true }).click();
    const steps = page.getByRole('list', { name: 'steps of the plan' });
    await steps.getByText('linux/link/page1/dropped').first().waitFor();
    await picture(page, 'dropped');
  });

  it('an_error_is_shown_at_its_line_and_nothing_can_be_applied', async () => {
    const page = await come('#/plan');
    await plan(page, 'kind: netns\nname: page2\n---\nkind: bridge\nname: br0\nnetns: page2\nadresses: [10.0.0.1/24]\n');
    const wrong = page.getByRole('list', { name: /what is wrong/ }).getByRole('listitem').first();
    await wrong.waitFor();
    expect(await wrong.innerText()).toMatch(/page\.yaml:7:1/);
    expect(await page.getByRole('button', { name: 'Apply', exact: true }).count()).toBe(0);
    await wrong.getByRole('button').click();
    await expect.poll(() => page.evaluate(() => (document.activeElement as HTMLTextAreaElement).selectionStart)).toBe(64);
    await picture(page, 'wrong');
  });

  it('what_waits_says_what_it_waits_for', async () => {
    const page = await come('#/plan');
    await plan(page, ROUTE);
    await page.getByRole('button', { name: 'Apply', exact: true }).click();
    await page.getByRole('region', { name: 'outcome' }).getByText('pending', { exact: true }).waitFor();
    const key = 'linux/route/page1/main/10.60.0.0/16/0';
    await becomes(page, key, 'PENDING');
    const why = page.getByRole('region', { name: 'Why it stands where it stands' });
    await why.getByText('linux/up/page1/nowhere').first().waitFor();
    expect(await why.getByRole('listitem').count()).toBeGreaterThan(1);
    await picture(page, 'pending');
    await goTo(page, '#/drift');
    await page.getByRole('list', { name: 'items that are not where they should be' }).getByText(key).waitFor();
    await goTo(page, '#/items');
    await page.getByRole('link', { name: 'Show only PENDING' }).click();
    await page.getByRole('list', { name: 'items' }).getByText(key).waitFor();
    expect(new Set(await page.getByRole('list', { name: 'items' }).locator('.badge').allInnerTexts())).toEqual(new Set(['PENDING']));
    await page.getByRole('link', { name: 'Show every state' }).click();
    await page.getByRole('list', { name: 'items' }).getByText('CONFIGURED').first().waitFor();
    await goTo(page, `#/graph?focus=${key}&depth=1`);
    await page.getByText('unmet', { exact: true }).first().waitFor();
    await picture(page, 'pending-graph');
  });
});

describe('drift', () => {
  it('what_somebody_removes_is_put_back_and_told', async () => {
    const page = await come(`#/item/${LINK}`);
    await becomes(page, LINK, 'CONFIGURED');
    const before = (await transactions(page)).at(-1) ?? 0;
    if (house.agent.inside) execSync(`${house.agent.inside} ip netns exec page1 ip link delete br0`, { stdio: 'inherit' });
    else await page.evaluate(async (key) => { await fetch('./dev/break', { method: 'POST', body: JSON.stringify({ key }) }); }, LINK);
    const healing = async (): Promise<number> => {
      for (const seq of await transactions(page)) if (seq > before && (await touched(page, seq)).includes(LINK)) return seq;
      return 0;
    };
    await expect.poll(healing, { message: `a transaction puts ${LINK} back` }).toBeGreaterThan(before);
    if (house.agent.inside) execSync(`${house.agent.inside} ip netns exec page1 ip link show br0`);
    await becomes(page, LINK, 'CONFIGURED');
    await goTo(page, '#/drift');
    await page.getByRole('region', { name: 'Healed by the agent' }).getByRole('link', { name: `#${await healing()}`, exact: true }).waitFor();
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
  const bar = (page: Visit['page']): ReturnType<Visit['page']['locator']> => page.getByRole('region', { name: 'confirmation' });
  const gone = async (page: Visit['page'], key: string): Promise<void> => {
    await goTo(page, `#/items?text=${key}`);
    await page.getByText('No item passes the filter.').waitFor();
  };

  const applyWithin = async (page: Visit['page'], text: string, within: string): Promise<void> => {
    await plan(page, text, 'trial');
    await page.getByRole('combobox', { name: /^confirmation/ }).selectOption(within);
    await page.getByRole('button', { name: 'Apply', exact: true }).click();
    await page.getByRole('region', { name: 'outcome' }).getByText('It waits for a confirmation').waitFor();
  };
  /** What is left on the clock, in seconds. */
  const left = async (page: Visit['page']): Promise<number> => {
    const [minutes = 0, seconds = 0] = (await page.getByRole('timer').innerText()).split(':').map(Number);
    return 60 * minutes + seconds;
  };

  it('one_that_waits_counts_down_on_every_view', async () => {
    const page = await come('#/plan');
    await applyWithin(page, more, '15m');
    const first = await left(page);
    expect(first).toBeGreaterThan(0);
    expect(first).toBeLessThanOrEqual(900);
    for (const hash of ['#/items', '#/events', '#/graph']) {
      await goTo(page, hash);
      await page.locator('main h1').waitFor({ state: 'attached' });
      await bar(page).getByRole('timer').waitFor();
    }
    await picture(page, 'countdown');
    await expect.poll(() => left(page)).toBeLessThan(first);
    await bar(page).getByRole('button', { name: 'Take back' }).click();
    await bar(page).waitFor({ state: 'detached' });
    await gone(page, KEY);
  });

  it('an_unconfirmed_change_is_taken_back_by_itself', async () => {
    const page = await come('#/plan');
    await applyWithin(page, more, '30s');
    await bar(page).waitFor({ state: 'detached' });
    await gone(page, KEY);
    await picture(page, 'taken-back');
  });

  it('an_extended_one_gets_that_much_more_time_and_a_confirmed_one_stays', async () => {
    const page = await come('#/plan');
    await applyWithin(page, more, '15m');
    await page.getByRole('button', { name: /^Extend/ }).click();
    // More than it had to begin with: only what is put on top of what is left gives that.
    await expect.poll(() => left(page)).toBeGreaterThan(900);
    await page.getByRole('button', { name: 'Confirm', exact: true }).click();
    await bar(page).waitFor({ state: 'detached' });
    await becomes(page, KEY, 'CONFIGURED');
  });

  it('one_can_be_taken_back_at_once', async () => {
    const page = await come('#/plan');
    await applyWithin(page, 'kind: bridge\nname: br2\nnetns: page1\n', '15m');
    await page.getByRole('button', { name: 'Take back' }).click();
    await bar(page).waitFor({ state: 'detached' });
    await gone(page, 'linux/link/page1/br2');
  });
});

describe('time', () => {
  it('the_past_has_the_needs_that_it_had', async () => {
    const page = await come('#/plan');
    const [key, needed] = ['linux/route/page1/main/10.61.0.0/16/0', 'linux/up/page1/br4'];
    const applied = async (text: string): Promise<number> => {
      await plan(page, text, 'needs');
      await page.getByRole('button', { name: 'Apply', exact: true }).click();
      const name = await page.getByRole('region', { name: 'outcome' }).getByRole('link', { name: /^Transaction #/ }).innerText();
      return Number(name.replace(/\D/g, ''));
    };
    const waited = await applied('kind: route\nnetns: page1\ndestination: 10.61.0.0/16\nvia: 10.51.0.1\nlink: br4\n');
    const met = await applied('kind: bridge\nname: br4\nnetns: page1\naddresses: [10.51.0.2/24]\n');
    await becomes(page, key, 'CONFIGURED');
    for (const [at, waits] of [[waited, true], [met, false]]) {
      await goTo(page, `#/graph?at=${at}&focus=${key}&depth=1&chosen=${key}`);
      const need = page.getByRole('region', { name: 'chosen vertex' }).getByRole('listitem').filter({ hasText: needed.split('/').slice(-2).join('/') });
      await expect.poll(() => page.getByRole('application').getAttribute('aria-label')).toContain(`after transaction ${at}`);
      await need.first().waitFor();
      await expect.poll(async () => (await need.getByText('unmet').count()) > 0, { message: `after #${at}` }).toBe(waits);
    }
  });

  it('the_slider_shows_the_graph_as_it_was', async () => {
    const page = await come('#/graph');
    await expect.poll(() => itemsInGraph(page)).toBeGreaterThan(1);
    const now = await itemsInGraph(page);
    const slider = page.getByRole('slider', { name: 'Moment' });
    await expect.poll(() => slider.isEnabled(), { message: 'the transactions are read' }).toBe(true);
    await slider.focus();
    await page.keyboard.press('Home');
    await expect.poll(() => itemsInGraph(page)).toBeLessThan(now);
    const [then, drawn] = [await itemsInGraph(page), page.getByRole('application')];
    expect(await drawn.getAttribute('aria-label')).toMatch(/after transaction \d+/);
    await page.getByText('touched by it').waitFor();
    await picture(page, 'past');
    await page.getByRole('button', { name: 'Back to now' }).click();
    await expect.poll(() => drawn.getAttribute('aria-label')).not.toMatch(/after transaction/);
    // Something may have been observed meanwhile.
    await expect.poll(() => itemsInGraph(page)).toBeGreaterThan(then);
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
    await expect.poll(() => page.evaluate(() => document.activeElement?.tagName)).toBe('H1');
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
