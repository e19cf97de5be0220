// A Kubernetes cluster as far as flows need one: a real API server and its etcd, ended with the tests, and the controller
// over it. There is no Knative: the tests say what it would.
import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { generateKeyPairSync } from 'node:crypto';
import { mkdirSync, mkdtempSync, openSync, rmSync, writeFileSync } from 'node:fs';
import { request } from 'node:https';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { PATIENCE } from './patience';

const TOKEN = 'a-token-for-tests';

/** What is known of a resource: where it is, and what it is called. */
const RESOURCES = {
  flow: ['eventing.kyma-project.io/v1alpha1', 'EventFlow', 'eventflows'],
  broker: ['eventing.knative.dev/v1', 'Broker', 'brokers'],
  channel: ['messaging.knative.dev/v1', 'Channel', 'channels'],
  subscription: ['messaging.knative.dev/v1', 'Subscription', 'subscriptions'],
  source: ['serving.knative.dev/v1', 'Service', 'services'],
  policy: ['security.istio.io/v1', 'PeerAuthentication', 'peerauthentications'],
  instance: ['servicecatalog.k8s.io/v1beta1', 'ServiceInstance', 'serviceinstances'],
} as const;
export type Resource = keyof typeof RESOURCES;
export interface Thing { metadata: { name: string; [more: string]: unknown }; [more: string]: unknown }

/** Asks again and again until the answer is not nothing. */
export async function until<T>(what: string, ask: () => Promise<T | undefined>): Promise<T> {
  const deadline = Date.now() + PATIENCE;
  for (;;) {
    const answer = await ask().catch(() => undefined);
    if (answer !== undefined) return answer;
    if (Date.now() > deadline) throw new Error(`waited in vain until ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 50)); // polled until the deadline
  }
}

const freePort = (): Promise<number> =>
  new Promise((resolve, reject) => {
    const server = createServer().once('error', reject);
    server.listen(0, '127.0.0.1', () => {
      const address = server.address();
      server.close(() => resolve(typeof address === 'object' && address ? address.port : 0));
    });
  });

/** Runs a program until its input ends, which it does with whoever started it, however that ends. */
const SUPERVISOR = '"$@" </dev/null & read -r line; kill -9 $!; wait';

export class Cluster {
  readonly #children: ChildProcess[] = [];
  private constructor(private readonly folder: string, private readonly port: number) {}

  /** Starts both programs out of a folder, and installs what flows are made of. */
  static async open(programs: string, kilter: string): Promise<Cluster> {
    const folder = mkdtempSync(join(tmpdir(), 'kilter-cluster-'));
    const [clients, peers, port] = [await freePort(), await freePort(), await freePort()];
    const cluster = new Cluster(folder, port);
    await cluster.#begin(programs, kilter, clients, peers).catch((error: unknown) => {
      cluster.close();
      throw error;
    });
    return cluster;
  }

  async #begin(programs: string, kilter: string, clients: number, peers: number): Promise<void> {
    const { folder, port } = this;
    const { privateKey, publicKey } = generateKeyPairSync('ec', {
      namedCurve: 'P-256', privateKeyEncoding: { type: 'pkcs8', format: 'pem' }, publicKeyEncoding: { type: 'spki', format: 'pem' },
    });
    const file = (name: string, text: string): string => { writeFileSync(join(folder, name), text); return join(folder, name); };
    mkdirSync(join(folder, 'certificates'));
    const etcd = `http://127.0.0.1:${clients}`;
    this.#start(join(programs, 'etcd'), [
      `--data-dir=${join(folder, 'etcd')}`, `--listen-client-urls=${etcd}`, `--advertise-client-urls=${etcd}`,
      `--listen-peer-urls=http://127.0.0.1:${peers}`, '--unsafe-no-fsync',
    ]);
    this.#start(join(programs, 'kube-apiserver'), [
      `--etcd-servers=${etcd}`, '--bind-address=127.0.0.1', `--secure-port=${port}`, `--cert-dir=${join(folder, 'certificates')}`,
      `--token-auth-file=${file('tokens.csv', `${TOKEN},tester,1,system:masters\n`)}`, '--authorization-mode=AlwaysAllow',
      '--disable-admission-plugins=ServiceAccount', '--service-account-issuer=https://localhost',
      `--service-account-key-file=${file('accounts.pub', publicKey)}`, `--service-account-signing-key-file=${file('accounts.key', privateKey)}`,
      '--service-cluster-ip-range=10.0.0.0/24',
    ]);
    file('kubeconfig', JSON.stringify({
      apiVersion: 'v1', kind: 'Config', 'current-context': 'tests',
      clusters: [{ name: 'tests', cluster: { server: `https://127.0.0.1:${port}`, 'insecure-skip-tls-verify': true } }],
      users: [{ name: 'tests', user: { token: TOKEN } }],
      contexts: [{ name: 'tests', context: { cluster: 'tests', user: 'tests' } }],
    }));
    await until('the API server is ready', () => this.call('GET', '/api/v1/namespaces/default'));
    await this.#install(kilter);
  }

  close(): void {
    for (const child of this.#children) child.stdin?.end();
    rmSync(this.folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 });
  }

  #start(program: string, words: string[]): void {
    const log = openSync(join(this.folder, 'log'), 'a');
    this.#children.push(spawn('sh', ['-c', SUPERVISOR, 'sh', program, ...words], { stdio: ['pipe', log, log] }));
  }

  /** The definition of flows is the one that the program prints; the others take anything. */
  async #install(kilter: string): Promise<void> {
    const printed = spawnSync(kilter, ['eventflow', 'manifests'], { encoding: 'utf8' }).stdout.split(/^---$/m);
    const flows = printed.find((text) => text.includes('CustomResourceDefinition')) ?? '';
    for (const [resource, [version, kind, plural]] of Object.entries(RESOURCES)) {
      const [group = '', name = ''] = version.split('/');
      const anything = { type: 'object', 'x-kubernetes-preserve-unknown-fields': true };
      const definition = {
        apiVersion: 'apiextensions.k8s.io/v1', kind: 'CustomResourceDefinition',
        metadata: { name: `${plural}.${group}`, annotations: { 'api-approved.kubernetes.io': 'unapproved, for tests only' } },
        spec: {
          group, scope: 'Namespaced', names: { kind, plural, singular: kind.toLowerCase() },
          versions: [{ name, served: true, storage: true, subresources: { status: {} }, schema: { openAPIV3Schema: anything } }],
        },
      };
      const body = resource === 'flow' ? flows : JSON.stringify(definition);
      const path = `/apis/apiextensions.k8s.io/v1/customresourcedefinitions/${plural}.${group}?fieldManager=tests`;
      await this.call('PATCH', path, body, 'application/apply-patch+yaml');
    }
    for (const [version, , plural] of Object.values(RESOURCES)) await until(`${plural} are served`, () => this.call('GET', `/apis/${version}/${plural}`));
  }

  /** A call of the API that must go well. */
  call(method: string, path: string, body = '', type = 'application/json'): Promise<Thing> {
    return new Promise((resolve, reject) => {
      const headers = { authorization: `Bearer ${TOKEN}`, 'content-type': type, accept: 'application/json' };
      const asked = request({ host: '127.0.0.1', port: this.port, path, method, headers, rejectUnauthorized: false }, (answer) => {
        let text = '';
        answer.setEncoding('utf8').on('data', (piece: string) => { text += piece; }).on('end', () => {
          if ((answer.statusCode ?? 500) < 300) resolve(JSON.parse(text) as Thing);
          else reject(new Error(`${method} ${path}: ${answer.statusCode} ${text}`));
        });
      });
      asked.on('error', reject);
      asked.end(body);
    });
  }

  async namespace(name: string): Promise<void> {
    await this.call('POST', '/api/v1/namespaces', JSON.stringify({ metadata: { name } }));
  }

  async create(resource: Resource, namespace: string, thing: Thing): Promise<void> {
    const [apiVersion, kind, plural] = RESOURCES[resource];
    await this.call('POST', `/apis/${apiVersion}/namespaces/${namespace}/${plural}`, JSON.stringify({ apiVersion, kind, ...thing }));
  }

  /** Says how something stands, once it is there. */
  async says(resource: Resource, namespace: string, name: string, status: object): Promise<void> {
    const [version, , plural] = RESOURCES[resource];
    const path = `/apis/${version}/namespaces/${namespace}/${plural}/${name}/status`;
    await until(`${name} can say how it stands`, () => this.call('PATCH', path, JSON.stringify({ status }), 'application/merge-patch+json'));
  }

  /** The first of a resource in a namespace, once it is there. */
  first(resource: Resource, namespace: string): Promise<Thing> {
    const [version, , plural] = RESOURCES[resource];
    return until(`there is one of ${plural}`, async () => {
      const list = await this.call('GET', `/apis/${version}/namespaces/${namespace}/${plural}`);
      return (list['items'] as Thing[])[0];
    });
  }

  /** Starts the controller, and waits until it says where its page is. */
  async control(kilter: string, listen = '127.0.0.1:0'): Promise<{ url: string; end: () => Promise<void> }> {
    const environment = { ...process.env, KUBECONFIG: join(this.folder, 'kubeconfig') };
    const words = ['-c', SUPERVISOR, 'sh', kilter, 'eventflow', 'run', '--listen', listen];
    const child = spawn('sh', words, { env: environment, stdio: ['pipe', 'ignore', 'pipe'] });
    this.#children.push(child);
    const url = await new Promise<string>((resolve, reject) => {
      const late = setTimeout(() => reject(new Error('the controller does not say where its page is')), PATIENCE);
      // Whatever it says later is read too, so that it never waits for a reader.
      createInterface({ input: child.stderr }).on('line', (line) => {
        const found = line.match(/flows are shown at (http:\S+)\//)?.[1];
        if (!found) return;
        clearTimeout(late);
        resolve(found);
      });
    });
    const ended = new Promise<void>((resolve) => { child.once('exit', () => resolve()); });
    return { url, end: () => { child.stdin.end(); return ended; } };
  }
}
