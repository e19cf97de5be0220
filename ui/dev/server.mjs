// A stand-in for the agent while the page is being built: it answers as the REST contract says, out of a small world
// in memory. For development and for the tests of the page alone; it is never shipped, and no part of the agent.
//
//   node dev/server.mjs [--port 7480] [--items 10000] [--past 1500] [--token SECRET] [--page DIR]
//
// `POST /dev/break {key}` takes an item away behind the agent's back, as a person with `ip` would.
import { createReadStream, existsSync } from 'node:fs';
import { createServer } from 'node:http';
import { extname, join, normalize } from 'node:path';
import { World } from './world.mjs';

const option = (name, otherwise) => {
  const at = process.argv.indexOf(`--${name}`);
  return at < 0 ? otherwise : process.argv[at + 1];
};
const port = Number(option('port', '7480'));
const secret = option('token', '');
const folder = option('page', new URL('../dist', import.meta.url).pathname);
const world = new World(Number(option('items', '0')), Number(option('past', '0')));
const TYPES = { '.html': 'text/html', '.js': 'text/javascript', '.css': 'text/css', '.svg': 'image/svg+xml' };
const POLICY = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'none'";

const bodyOf = async (request) => {
  let text = '';
  for await (const piece of request) text += piece;
  return text ? JSON.parse(text) : {};
};

/** JSON with its words spelt as the agent spells them. */
const WORDS = new Set(['action', 'outcome', 'edge_type', 'author', 'reason']);
const spelt = (value) => JSON.stringify(value, (field, each) => (WORDS.has(field) && typeof each === 'string' ? each.toUpperCase().replaceAll(' ', '_') : each));

function answer(response, value, status = 200, type = 'application/json') {
  const problem = status >= 400;
  response.writeHead(status, { 'content-type': problem ? 'application/problem+json' : type, 'cache-control': 'no-store' });
  response.end(typeof value === 'string' ? value : spelt(value));
}

const refuse = (response, status, reason, message, more = {}) =>
  answer(response, { type: 'about:blank', title: message, status, detail: message, reason, message, causes: [], hint: '', keys: [], misplaced: [], ...more }, status);

function send(response, name, value, id) {
  response.write(`${id === undefined ? '' : `id: ${id}\n`}event: ${name}\ndata: ${spelt(value)}\n\n`);
}

function watch(request, response, url) {
  response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-store' });
  const cursor = url.searchParams.get('cursor') || request.headers['last-event-id'] || '';
  const missed = world.since(cursor);
  if (missed) for (const [id, change] of missed) send(response, 'statuses', change, id);
  else send(response, 'statuses', { snapshot: true, statuses: world.statuses(), cursor: world.cursor() }, world.cursor());
  const hear = (name, value, id) => send(response, name, value, id);
  world.watchers.add(hear);
  const beat = setInterval(() => response.write(': still here\n\n'), 15_000);
  request.on('close', () => { clearInterval(beat); world.watchers.delete(hear); });
}

async function apply(response, body, streamed) {
  const { problem, plan } = world.plan(body);
  if (problem) return refuse(response, 400, 'invalid', problem.message, problem);
  if (body.expected_hash && body.expected_hash !== plan.hash) return refuse(response, 409, 'stale', 'the plan is not what would happen any more', { hint: 'plan again', causes: ['the graph has changed since'] });
  if (world.confirmation) return refuse(response, 409, 'refused', 'another transaction waits for a confirmation', { hint: 'confirm it or take it back first' });
  if (streamed) response.writeHead(200, { 'content-type': 'text/event-stream' });
  const ended = await world.apply(plan, body, (name, value) => streamed && send(response, name, value));
  if (!streamed) return answer(response, ended);
  send(response, 'ended', ended);
  response.end();
}

/** The newest of a list, or the newest before one, and what leads to the page before. */
function newest(url, name, list, seq) {
  const [last, before] = ['last', 'before'].map((word) => Number(url.searchParams.get(word)) || Number.MAX_SAFE_INTEGER);
  const known = list.filter((each) => seq(each) < before);
  const page = known.slice(-last);
  return { [name]: page, next_page_token: page.length < known.length ? String(seq(page[0])) : '' };
}

const routes = {
  'GET /health': (response) => answer(response, world.health()),
  'GET /items': (response, url) => answer(response, world.items(url.searchParams)),
  'GET /statuses': (response) => answer(response, { statuses: world.statuses() }),
  'GET /explain': (response, url) => answer(response, world.explain(url.searchParams.get('key'))),
  'GET /timeline': (response, url) => answer(response, newest(url, 'moments', world.timeline(url.searchParams.get('key')), (moment) => moment.txn)),
  'GET /transactions': (response, url) => answer(response, { ...newest(url, 'transactions', world.transactions.map((txn) => txn.summary), (txn) => txn.seq), complete_since: 1 }),
  'GET /events': (response, url) => answer(response, newest(url, 'events', world.events, (event) => event.seq)),
  'GET /graph': (response, url) => answer(response, world.graph(url.searchParams.get('at'))),
  'GET /diff': (response, url) => answer(response, { differences: world.diff(url.searchParams.get('from'), url.searchParams.get('to')) }),
  'GET /sources': (response) => answer(response, { sources: world.sources() }),
  'GET /confirmation': (response) => answer(response, { confirmation: world.confirmation ?? null }),
  'GET /paused': (response) => answer(response, { paused: world.paused }),
  'PUT /paused': (response, _, body) => answer(response, { paused: world.setPaused(body.prefix, body.paused) }),
  'POST /resync': async (response) => answer(response, await world.resync()),
  'POST /plan': (response, _, body) => {
    const { problem, plan } = world.plan(body);
    return problem ? refuse(response, 400, 'invalid', problem.message, problem) : answer(response, plan);
  },
};

const server = createServer(async (request, response) => {
  const url = new URL(request.url, 'http://localhost');
  const path = url.pathname.replace(/^\/api\/v1/, '');
  if (request.method === 'POST' && url.pathname === '/dev/break') return answer(response, await world.break((await bodyOf(request)).key));
  if (!url.pathname.startsWith('/api/')) {
    const file = join(folder, normalize(url.pathname === '/' ? '/index.html' : url.pathname));
    if (!existsSync(file)) return refuse(response, 404, 'unknown', 'there is no such page');
    response.writeHead(200, { 'content-type': TYPES[extname(file)] ?? 'application/octet-stream', 'content-security-policy': POLICY, 'cache-control': 'no-cache' });
    return createReadStream(file).pipe(response);
  }
  if (secret && request.headers.authorization !== `Bearer ${secret}`) return refuse(response, 401, 'forbidden', 'whoever asks is not known');
  if (request.method !== 'GET' && request.headers['x-kilter'] !== '1') return refuse(response, 403, 'forbidden', 'the request lacks the header `X-Kilter`');
  try {
    if (path === '/watch') return watch(request, response, url);
    const body = request.method === 'GET' ? {} : await bodyOf(request);
    if (path === '/apply') return await apply(response, body, request.headers.accept?.includes('event-stream'));
    const confirmed = path.match(/^\/confirmation\/(confirm|extend|cancel)$/);
    if (confirmed) return answer(response, await world.decide(confirmed[1], body));
    const item = path.startsWith('/items/') && world.item(decodeURIComponent(path.slice('/items/'.length)));
    if (item) return answer(response, item);
    const txn = path.match(/^\/transactions\/(\d+)$/) && world.transactions.find((each) => each.summary.seq === Number(path.split('/')[2]));
    if (txn) return answer(response, txn);
    const route = routes[`${request.method} ${path}`];
    if (!route) return refuse(response, 404, 'unknown', `there is no \`${path}\``);
    return await route(response, url, body);
  } catch (error) {
    return refuse(response, 500, 'broken', 'something of the stand-in went wrong', { causes: [String(error?.stack ?? error)] });
  }
});
server.listen(port, '127.0.0.1', () => console.log(`http://127.0.0.1:${server.address().port}/`));
