// The page of flows in a browser, against the controller over a real API server: what happens in the cluster is seen
// without asking, whoever looks.
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { launch } from './browser.mjs';
import { Cluster } from './cluster';
import { goTo, nameless, picture, visit } from './visit';

const program = process.env['KILTER_PROGRAM'] ?? '';
const READY = [{ type: 'Ready', status: 'True' }];

let browser: Browser;
let cluster: Cluster;
let controller: { url: string; end: () => Promise<void> };

const row = (page: Page, name: string): ReturnType<Page['locator']> => page.getByRole('listitem').filter({ hasText: name });
const shows = (page: Page, name: string, text: string): Promise<void> =>
  expect.poll(() => row(page, name).first().innerText(), { message: `${name} shows ${text}` }).toContain(text);

beforeAll(async () => {
  [browser, cluster] = await Promise.all([launch(), Cluster.open(process.env['KUBEBUILDER_ASSETS'] ?? '', program)]);
  controller = await cluster.control(program);
});
afterAll(async () => {
  await browser?.close();
  cluster?.close();
});

/** Orders something as a platform does, and makes its flow as the service broker does. */
async function order(namespace: string, name: string, source: string): Promise<void> {
  await cluster.create('instance', namespace, { metadata: { name } });
  await cluster.says('instance', namespace, name, { conditions: READY });
  await cluster.create('flow', namespace, { metadata: { name: `event-flow-${name}` }, spec: { source } });
}

describe('the page of flows', () => {
  it('shows_what_happens_in_the_cluster_as_it_happens', async () => {
    const { page, errors, close } = await visit(browser, controller.url, '');
    await page.getByText('There is no flow and no service instance in this cluster yet.').waitFor();
    for (const namespace of ['kyma-integration', 'shop']) await cluster.namespace(namespace);
    await cluster.create('source', 'kyma-integration', { metadata: { name: 'crm' } });
    await cluster.says('source', 'kyma-integration', 'crm', { conditions: READY });
    await cluster.create('channel', 'kyma-integration', { metadata: { name: 'crm-channel', labels: { 'application-name': 'crm' } } });
    await order('shop', 'orders', 'crm');
    await shows(page, 'orders', 'Provisioning');
    await shows(page, 'orders', 'WaitingForSink');
    // Knative makes the Broker, and says that everything is well.
    await cluster.create('broker', 'shop', { metadata: { name: 'default', labels: { 'eventing.knative.dev/namespaceInjected': 'true' } } });
    const broker = { address: { url: 'http://broker.shop.svc.cluster.local' }, conditions: READY };
    await cluster.says('broker', 'shop', 'default', broker);
    const subscription = await cluster.first('subscription', 'kyma-integration');
    await cluster.says('subscription', 'kyma-integration', subscription.metadata.name, { conditions: READY });
    await shows(page, 'orders', 'Running');
    await cluster.says('broker', 'shop', 'default', { conditions: [{ type: 'Ready', status: 'False', reason: 'Unhealthy', message: 'no pod of the ingress is ready' }] });
    await shows(page, 'orders', 'Failed');
    await shows(page, 'orders', 'no pod of the ingress is ready');
    await expect.poll(() => page.getByRole('status').allInnerTexts()).toContainEqual(expect.stringContaining('orders in shop: Failed.'));
    // What was never ordered is seen too, and so is an instance without events.
    await cluster.create('flow', 'shop', { metadata: { name: 'by-hand' }, spec: { source: 'late' } });
    await cluster.create('instance', 'shop', { metadata: { name: 'database' } });
    await cluster.says('instance', 'shop', 'database', { conditions: READY });
    await shows(page, 'database', 'Running');
    await shows(page, 'by-hand', 'Unhealthy');
    expect(errors).toEqual([]);
    await close();
  });

  it('tells_the_conditions_of_a_flow_and_the_chain_of_causes_behind_them', async () => {
    const { page, errors, close } = await visit(browser, controller.url, '#/shop/orders');
    const condition = (name: string): Promise<string> => page.getByRole('row', { name }).first().innerText();
    await expect.poll(() => condition('SinkReady')).toMatch(/False[\s\S]*Unhealthy[\s\S]*no pod of the ingress is ready/);
    await expect.poll(() => condition('SubscriptionReady')).toContain('True');
    await page.getByText('http://broker.shop.svc.cluster.local').waitFor();
    await page.getByText('Every part is as it should be').waitFor();
    await goTo(page, '#/shop/by-hand');
    await page.getByText('kube/channel/late').first().waitFor();
    await expect.poll(() => page.locator('.chain').first().innerText()).toMatch(/eventflow\/subscription\/shop\/late\s*PENDING[\s\S]*because of kube\/channel\/late/);
    await goTo(page, '#/shop/nobody');
    await page.getByText('There is no “nobody” in namespace “shop”').waitFor();
    expect(errors).toEqual([]);
    await close();
  });

  it('is_led_by_keys_and_filtered_as_one_types', async () => {
    const { page, close } = await visit(browser, controller.url, '');
    await row(page, 'orders').waitFor();
    await page.keyboard.press('/');
    await page.keyboard.type('database');
    await expect.poll(() => page.getByRole('listitem').count()).toBe(1);
    await page.getByRole('searchbox').fill('');
    await page.getByRole('button', { name: /Failed/ }).click();
    await expect.poll(() => page.getByRole('listitem').count()).toBe(2);
    await page.getByRole('list', { name: 'flows' }).focus();
    await page.keyboard.press('End');
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { level: 1, name: 'orders' }).waitFor();
    await expect.poll(() => page.evaluate(() => document.activeElement?.textContent)).toBe('orders');
    await page.keyboard.press('Escape');
    await page.getByRole('heading', { level: 1, name: 'Flows' }).waitFor();
    await expect.poll(() => page.getByRole('button', { name: /Failed/ }).getAttribute('aria-pressed')).toBe('true');
    await close();
  });

  for (const scheme of ['light', 'dark'] as const) {
    for (const width of [360, 1440]) {
      it(`opens_${scheme}_at_${width}_points_without_an_error_and_fits`, async () => {
        const { page, errors, close } = await visit(browser, controller.url, '', { width, scheme });
        for (const [hash, shot] of [['#/', 'flows'], ['#/shop/orders', 'flow'], ['#/shop/by-hand', 'flow-waits']] as const) {
          await goTo(page, hash);
          await expect.poll(() => page.locator('main').innerText()).not.toMatch(/Reading|Asking/);
          const over = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
          expect(over, `${hash} is wider than the screen`).toBeLessThanOrEqual(0);
          expect(await nameless(page), `${hash} has something without a name`).toEqual([]);
          expect(await page.locator('main h1').count(), `${hash} has one heading`).toBe(1);
          await picture(page, `${shot}-${width}-${scheme}`);
        }
        for (const role of ['main', 'banner'] as const) expect(await page.getByRole(role).count(), role).toBe(1);
        expect(errors).toEqual([]);
        await close();
      });
    }
  }

  it('says_that_the_controller_is_gone_and_reads_everything_again_when_it_is_back', async () => {
    const { page, close } = await visit(browser, controller.url, '');
    await row(page, 'orders').waitFor();
    const place = new URL(controller.url).host;
    await controller.end();
    await page.getByText('The connection to the controller is lost.', { exact: true }).waitFor();
    await cluster.says('broker', 'shop', 'default', { conditions: READY });
    controller = await cluster.control(program, place);
    await page.getByText('live', { exact: true }).waitFor();
    await shows(page, 'orders', 'Running');
    await close();
  });
});
