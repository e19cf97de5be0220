// The small world behind the stand-in: links, addresses and routes in namespaces, with just enough of an agent around
// them (needs, derived items, plans, transactions, healing, confirmations) that every part of the page has something
// true to show. Its documents are a subset of YAML: flat fields, lists in brackets, `---` between items.
import { createHash, randomUUID } from 'node:crypto';

const FIELDS = { netns: ['name'], dummy: ['name', 'netns', 'addresses'], veth: ['name', 'netns', 'addresses', 'mtu', 'peer'], route: ['netns', 'destination', 'via', 'link'], bridge: ['name', 'netns', 'addresses', 'mtu'] };
const MOST_MTU = 65535;
/** Entries by what the function says of each. */
function grouped(entries, by) {
  const groups = new Map();
  for (const entry of entries) groups.set(by(entry), [...(groups.get(by(entry)) ?? []), entry]);
  return groups;
}
const iso = (moment = Date.now()) => new Date(moment).toISOString();
const spans = { s: 1000, m: 60_000, h: 3_600_000 };
const pause = (span) => new Promise((resolve) => setTimeout(resolve, span));

function read(documents) {
  const found = [];
  const misplaced = [];
  for (const { name, text } of documents ?? []) {
    let item;
    text.split('\n').forEach((line, index) => {
      if (line.trim() === '---') { item = undefined; return; }
      const match = line.match(/^(\s*)([A-Za-z_]+):\s*(.*)$/);
      if (!match || line.trim().startsWith('#')) return;
      const [, indent, field, raw] = match;
      const place = { file: name, line: index + 1, column: indent.length + 1 };
      if (!item) { item = { value: {}, place: { ...place, column: 7 } }; found.push(item); }
      if (field === 'kind') {
        if (!FIELDS[raw]) misplaced.push({ place: { ...place, column: 7 }, message: `there is no kind \`${raw}\``, hint: 'did you mean `veth`?' });
        item.kind = raw;
        if (raw === 'bridge' || raw === 'dummy') item.value.kind = raw;
        return;
      }
      const known = FIELDS[item.kind];
      if (known && !known.includes(field)) misplaced.push({ place, message: `unknown field \`${field}\`, \`${item.kind}\` has ${known.map((each) => `\`${each}\``).join(', ')}`, hint: field === 'adresses' ? 'did you mean `addresses`?' : '' });
      item.value[field] = raw.startsWith('[') ? raw.slice(1, -1).split(',').map((each) => each.trim().replaceAll('"', '')).filter(Boolean) : /^\d+$/.test(raw) ? Number(raw) : raw;
    });
  }
  return { found, misplaced };
}

const keyOf = ({ kind, value }) =>
  kind === 'netns' ? `linux/netns/${value.name}`
  : kind === 'route' ? `linux/route/${value.netns ?? 'host'}/main/${value.destination}/0`
  : `linux/link/${value.netns ?? 'host'}/${value.name}`;

const kindOf = (key) => key.split('/').slice(0, 2).join('.');

function needsOf(key, value) {
  const [, sort, space, link] = key.split('/');
  if (sort === 'route') return [`linux/up/${space}/${value.link ?? 'eth0'}`];
  if (sort === 'link') return space === 'host' ? [] : [`linux/netns/${space}`];
  if (sort === 'address' || sort === 'up') return [`linux/link/${space}/${link}`];
  return [];
}

const derivedOf = (key, value) => {
  if (!key.startsWith('linux/link/')) return [];
  const rest = key.slice('linux/link/'.length);
  return [...(value.addresses ?? []).map((address) => [`linux/address/${rest}/${address}`, { address }]), [`linux/up/${rest}`, { up: true }]];
};

export class World {
  #seq = 0;
  #cursor = 0;
  #changes = [];
  instance = randomUUID();
  start = iso(Date.now() - 3_600_000);
  vertices = new Map();
  snapshots = new Map([[0, new Map()]]);
  transactions = [];
  events = [];
  paused = [];
  watchers = new Set();

  constructor(items, past) {
    this.host();
    // A past of transactions that each make one more namespace.
    for (let seq = 1; seq <= past; seq += 1) this.now({ documents: [{ name: 'past.yaml', text: `kind: netns\nname: past${seq}` }], source: 'past' }, `Startup: past ${seq}`, 3_900_000);
    if (items > 0) this.many(items);
    else this.lab();
  }

  /** Seeds: a lab of two hosts, a switch and a router, with some history. */
  lab() {
    const veth = (netns, name, addresses, more = '') => `kind: veth\nname: ${name}\nnetns: ${netns}\naddresses: [${addresses}]\n${more}`;
    const route = (netns, destination, via, link) => `kind: route\nnetns: ${netns}\ndestination: ${destination}\nvia: ${via}\nlink: ${link}`;
    const first = ['kind: netns\nname: left', 'kind: netns\nname: right', 'kind: netns\nname: router', 'kind: netns\nname: switch', 'kind: bridge\nname: lan\nnetns: switch',
      veth('left', 'eth0', '10.1.0.2/24, fd00:1::2/64'), veth('right', 'eth0', '10.2.0.2/24, fd00:2::2/64'), veth('router', 'lan', '10.1.0.1/24'), veth('router', 'right', '10.2.0.1/24'),
      veth('switch', 'left', ''), veth('switch', 'router', ''), route('left', '0.0.0.0/0', '10.1.0.1', 'eth0'), route('right', '0.0.0.0/0', '10.2.0.1', 'eth0')].join('\n---\n');
    this.now({ documents: [{ name: 'lab/hosts.yaml', text: first }], source: 'lab' }, 'Startup: lab', 3_500_000);
    this.now({ documents: [{ name: 'lab/more.yaml', text: `${route('left', '10.9.0.0/16', '10.1.0.9', 'backup')}\n---\nkind: bridge\nname: spare\nnetns: store` }], source: 'lab' }, 'External Change [lab]', 2_400_000);
    this.now({ documents: [{ name: 'lab/hosts.yaml', text: `${veth('left', 'eth0', '10.1.0.2/24, fd00:1::2/64', 'mtu: 1400')}` }], source: 'lab' }, 'External Change [lab]', 1_200_000);
  }

  /** Seeds: so many items in namespaces of a hundred links. */
  many(items) {
    const text = [];
    for (let space = 0; text.length * 2 < items; space += 1) {
      text.push(`kind: netns\nname: space${space}`);
      for (let link = 0; link < 50 && text.length * 2 < items; link += 1) {
        text.push(`kind: veth\nname: eth${link}\nnetns: space${space}\naddresses: [10.${space}.${link}.1/24]`);
        text.push(`kind: route\nnetns: space${space}\ndestination: 10.${100 + space}.${link}.0/24\nvia: 10.${space}.${link}.2\nlink: ${link % 17 === 0 ? 'absent' : `eth${link}`}`);
      }
    }
    this.now({ documents: [{ name: 'many.yaml', text: text.join('\n---\n') }], source: 'many' }, 'Startup: many', 3_000_000);
  }

  /** What is there without anybody having asked. */
  host() {
    this.vertices.set('linux/link/host/lo', { value: { name: 'lo', mtu: 65536 }, actual: { name: 'lo', mtu: 65536 }, state: 'OBTAINED', observed: true, base: '' });
  }

  cursor() { return `${this.instance}-${this.#cursor}`; }
  since(cursor) {
    const [, at] = cursor.match(new RegExp(`^${this.instance}-(\\d+)$`)) ?? [];
    return at === undefined || this.#changes.length > 5000 ? undefined : this.#changes.filter(([id]) => Number(id.split('-').at(-1)) > Number(at));
  }

  tell(name, value, id) { for (const hear of this.watchers) hear(name, value, id); }

  told(keys) {
    const bases = new Set([...keys].map((key) => this.vertices.get(key)?.base || key.replace(/^linux\/(address|up)\/([^/]+\/[^/]+).*/, 'linux/link/$2')));
    this.#cursor += 1;
    const change = { snapshot: false, statuses: [...bases].map((key) => this.status(key)), cursor: this.cursor() };
    this.#changes.push([this.cursor(), change]);
    this.tell('statuses', change, this.cursor());
  }

  exists(key) { return this.vertices.get(key)?.actual !== undefined; }
  unmet(key, vertex) { return needsOf(key, vertex.value).filter((need) => !this.exists(need)); }

  status(key, own = [...this.vertices].filter(([, other]) => other.base === key).map(([each]) => each)) {
    const vertex = this.vertices.get(key);
    if (!vertex) return { key, state: 'NONEXISTENT' };
    const unmet = this.unmet(key, vertex);
    const derived = vertex.base ? [] : own.map((each) => this.status(each, []));
    const why = unmet.length && vertex.state === 'PENDING' ? `needs ${unmet.join(', ')}${vertex.place ? ` (${vertex.place.file}:${vertex.place.line}:${vertex.place.column})` : ''}` : '';
    return { key, state: vertex.state, exists: vertex.actual !== undefined, last: 'create', error: vertex.error ?? '', fields: [], unmet: vertex.state === 'PENDING' ? unmet : [], held_by: [], changed_by: vertex.changedBy ?? 0, derived, why, declared: !vertex.observed };
  }

  statuses() {
    const derived = grouped([...this.vertices].filter(([, vertex]) => vertex.base), ([, vertex]) => vertex.base);
    return [...this.vertices].filter(([, vertex]) => !vertex.base).sort().map(([key]) => this.status(key, (derived.get(key) ?? []).map(([each]) => each)));
  }

  plan(body) {
    if (body.revert_to !== undefined) return { plan: this.planned(this.back(Number(body.revert_to))) };
    const { found, misplaced } = read(body.documents);
    if (misplaced.length) return { problem: { message: 'could not read the documents', misplaced, hint: 'nothing was changed' } };
    if (found.length === 0 && !body.everything) return { problem: { message: 'nothing is declared', misplaced: [] } };
    const wanted = new Map([...this.vertices].filter(([, vertex]) => !vertex.base && !vertex.observed).map(([key, vertex]) => [key, { value: vertex.value, place: vertex.place, source: vertex.source }]));
    if (body.everything) for (const [key, vertex] of wanted) if (vertex.source === body.source) wanted.delete(key);
    for (const item of found) wanted.set(keyOf(item), { value: item.value, place: item.place, source: body.source });
    return { plan: this.planned(wanted) };
  }

  back(seq) {
    const then = this.snapshots.get(seq) ?? new Map();
    return new Map([...then].filter(([, vertex]) => !vertex.base && !vertex.observed).map(([key, vertex]) => [key, { value: vertex.value, place: vertex.place, source: vertex.source }]));
  }

  /** The steps from what is to what is wanted, by trying it on a copy. */
  planned(wanted) {
    const after = new Map([...this.vertices].filter(([, vertex]) => vertex.observed));
    for (const [key, { value, place, source }] of [...wanted].sort()) {
      after.set(key, { value, place, source, base: '' });
      for (const [derived, attribute] of derivedOf(key, value)) after.set(derived, { value: attribute, base: key, source });
    }
    const there = new Set([...after].filter(([, vertex]) => vertex.observed).map(([key]) => key));
    const order = [];
    for (let grown = true; grown;) {
      grown = false;
      for (const [key, vertex] of after) {
        if (there.has(key) || (vertex.base && !there.has(vertex.base)) || !needsOf(key, vertex.value).every((need) => there.has(need))) continue;
        there.add(key);
        order.push(key);
        grown = true;
      }
    }
    const steps = [];
    const side = (vertex, state) => ({ state, value: vertex?.value ?? null });
    const step = (key, action, before, next, state, more = {}) =>
      steps.push({ key, base: next?.base ?? before?.base ?? '', action, before: side(before, before?.state ?? 'NONEXISTENT'), after: side(next, state), error: '', needs: [], recreate_reason: '', refused: '', derived: Boolean(next?.base ?? before?.base), revert: false, retry: false, recreate: false, quiet: false, ...more });
    for (const [key, old] of [...this.vertices].reverse()) {
      if (old.observed || (after.has(key) && there.has(key))) continue;
      const next = after.get(key);
      if (old.actual !== undefined) step(key, 'delete', old, next, next ? 'PENDING' : 'REMOVED');
      else if (!next) step(key, 'drop', old, undefined, 'NONEXISTENT');
    }
    for (const key of order) {
      const [old, next] = [this.vertices.get(key), after.get(key)];
      if (!old || old.actual === undefined) step(key, 'create', old, next, 'CONFIGURED');
      else if (old.actual.kind !== next.value.kind) {
        step(key, 'delete', old, next, 'PENDING', { recreate: true, recreate_reason: `kind ${old.actual.kind} → ${next.value.kind}` });
        step(key, 'create', { ...old, state: 'PENDING' }, next, 'CONFIGURED', { recreate: true });
      } else if (JSON.stringify(old.actual) !== JSON.stringify(next.value)) step(key, 'update', { ...old, value: old.actual }, next, 'CONFIGURED');
    }
    for (const [key, next] of after) {
      if (there.has(key) || this.vertices.get(key)?.state === 'PENDING') continue;
      step(key, 'hold', this.vertices.get(key), next, 'PENDING', { needs: needsOf(key, next.value).filter((need) => !there.has(need)) });
    }
    const removed = steps.filter((each) => each.action === 'delete' && each.after.state === 'REMOVED').map((each) => each.key);
    const recreated = steps.filter((each) => each.recreate_reason).map((each) => ({ key: each.key, why: each.recreate_reason, returns: true }));
    const losing = steps.filter((each) => each.action === 'delete' && each.after.state === 'PENDING' && !each.recreate).map((each) => ({ key: each.key, why: each.needs.join(', '), returns: false }));
    const gaining = steps.filter((each) => each.action === 'create' && each.before.state === 'PENDING' && !each.recreate).map((each) => each.key);
    const hash = createHash('sha256').update(JSON.stringify(steps)).digest('hex');
    const plan = { hash, steps, blast_radius: { recreated, removed, links_down: recreated.map((each) => ({ ...each, why: '' })), losing, gaining }, after_txn: this.#seq, conflicts: [] };
    Object.defineProperty(plan, 'world', { value: { after, there }, enumerable: false });
    return plan;
  }

  carry(step, { after }) {
    const next = after.get(step.key);
    if (!next) { this.vertices.delete(step.key); return; }
    const exists = step.action === 'create' || step.action === 'update';
    this.vertices.set(step.key, { ...next, actual: exists ? next.value : undefined, state: exists ? 'CONFIGURED' : 'PENDING', changedBy: this.#seq });
  }

  async apply(plan, body, progress) {
    progress('planned', plan);
    const started = Date.now();
    if (plan.steps.length === 0) return { statuses: [], executed: [], cursor: this.cursor() };
    const before = new Map(this.vertices);
    this.#seq += 1;
    const refused = plan.steps.find((step) => step.after.value?.mtu > MOST_MTU);
    if (refused) return this.fail(plan, refused, body, started);
    for (const step of plan.steps) {
      await pause(Math.min(60, 1500 / plan.steps.length));
      this.carry(step, plan.world);
      progress('finished', { key: step.key, action: step.action, error: '' });
      this.told([step.key]);
    }
    const transaction = this.record(plan.steps, 'declared changes, revert on failure', body.description ?? 'External Change [page]', started);
    const ended = { transaction, statuses: [...new Set(plan.steps.map((step) => step.base || step.key))].map((key) => this.status(key)), executed: [], cursor: this.cursor() };
    if (body.confirm) {
      const [, count, unit] = body.confirm.within.match(/^(\d+)([smh])$/);
      this.confirmation = { id: randomUUID(), txn: transaction.seq, deadline: iso(Date.now() + Number(count) * spans[unit]), description: body.description ?? '' };
      this.before = before;
      this.wait();
      ended.confirmation = this.confirmation;
    }
    return ended;
  }

  /** What the kernel refuses fails, and nothing is left of it. */
  fail(plan, step, body, started) {
    const error = `failed to add link \`${step.key.slice('linux/'.length)}\`: invalid argument (EINVAL): mtu greater than device maximum`;
    const executed = [{ ...step, error, after: { ...step.after, state: 'FAILED' } }];
    const failed = { outcome: 'reverted', cause: { key: step.key, error }, operations: 1, failures: 1 };
    const transaction = this.record(plan.steps, 'declared changes, revert on failure', body.description ?? 'External Change [page]', started, Date.now(), { failed, executed });
    return { transaction, statuses: [], executed, cursor: this.cursor() };
  }

  wait() {
    clearTimeout(this.timer);
    this.tell('confirmation', { confirmation: this.confirmation ?? null });
    if (this.confirmation) this.timer = setTimeout(() => void this.decide('cancel', {}), Date.parse(this.confirmation.deadline) - Date.now());
  }

  async decide(word, body) {
    if (!this.confirmation) return { confirmation: null };
    if (word === 'extend') {
      const [, count, unit] = body.within.match(/^(\d+)([smh])$/);
      this.confirmation = { ...this.confirmation, deadline: iso(Date.now() + Number(count) * spans[unit]) };
      this.wait();
      return { confirmation: this.confirmation };
    }
    const { txn } = this.confirmation;
    this.confirmation = undefined;
    this.wait();
    if (word === 'confirm') return { confirmation: null };
    return this.apply(this.planned(new Map([...this.before].filter(([, vertex]) => !vertex.base && !vertex.observed))), { description: `Confirmation of #${txn} did not come` }, () => {});
  }

  /** Applies at once, some time ago. */
  now(body, description, ago) {
    const { plan } = this.plan(body);
    this.#seq += 1;
    for (const step of plan.steps) this.carry(step, plan.world);
    this.record(plan.steps, 'declared changes', description, Date.now() - ago, Date.now() - ago + 34);
  }

  record(steps, type, description, started, stopped = Date.now(), { failed, executed } = {}) {
    const waits = steps.some((step) => step.after.state === 'PENDING');
    const summary = { seq: this.#seq, txn_type: type, description, start: iso(started), stop: iso(stopped), outcome: waits ? 'pending' : 'applied', operations: steps.filter((step) => ['create', 'update', 'delete'].includes(step.action)).length, failures: 0, ...failed };
    this.transactions.push({ summary, planned: steps, as_planned: !executed, executed: executed ?? [], failures: failed ? [failed.cause] : [], ignored: [] });
    this.snapshots.set(this.#seq, new Map(this.vertices));
    const event = { seq: this.events.length, start: iso(started - 2), stop: summary.stop, name: description, description: `${description}\n${steps.length} steps`, method: 'update, forward, best effort', handlers: [{ handler: 'declared', revert: false, change: `${steps.length} changes drafted`, error: '' }, { handler: 'conditions', revert: false, change: '', error: '' }], txn: this.#seq, failures: failed ? [`transaction: ${failed.cause.key}: ${failed.cause.error}`] : [], conflicts: [] };
    this.events.push(event);
    if (steps.some((step) => step.action === 'create')) this.events.push({ ...event, seq: this.events.length, follow_up_to: event.seq, name: 'Statuses Written', description: 'Statuses Written', txn: 0, handlers: [{ handler: 'status writer', revert: false, change: 'wrote statuses', error: '' }] });
    this.tell('event', event);
    this.tell('transaction', summary);
    return summary;
  }

  async break(key) {
    const vertex = this.vertices.get(key);
    if (!vertex) return { broken: false };
    const value = vertex.actual;
    this.vertices.set(key, { ...vertex, actual: undefined, state: 'MISSING' });
    this.told([key]);
    if (this.paused.some((prefix) => key.startsWith(prefix))) return { broken: true };
    setTimeout(() => {
      const started = Date.now();
      this.#seq += 1;
      this.vertices.set(key, { ...vertex, actual: value, state: 'CONFIGURED', changedBy: this.#seq });
      this.told([key]);
      this.record([{ key, base: vertex.base, action: 'create', before: { state: 'MISSING', value }, after: { state: 'CONFIGURED', value }, derived: Boolean(vertex.base) }], 'refresh', 'Drifted', started);
    }, 1500);
    return { broken: true };
  }

  async resync() { return { statuses: [], executed: [], cursor: this.cursor() }; }
  setPaused(prefix, paused) {
    this.paused = [...this.paused.filter((each) => each !== prefix), ...(paused ? [prefix] : [])].sort();
    return this.paused;
  }

  health() { return { version: '0.1.0', instance: this.instance, start: this.start, ready: true, txn: this.#seq, vertices: this.vertices.size, troubles: [], paused: this.paused, confirmation: this.confirmation }; }
  sources() { return [...grouped([...this.vertices.values()].filter((vertex) => vertex.source && !vertex.base), (vertex) => vertex.source)].map(([name, items]) => ({ name, items: items.length, unheard: 0, directory: '' })); }

  item(key) {
    const vertex = this.vertices.get(key);
    if (!vertex) return undefined;
    const unmet = this.unmet(key, vertex);
    return { key, kind: kindOf(key), state: vertex.state, base: vertex.base, declared: vertex.observed ? null : vertex.value, actual: vertex.actual ?? null, observed: Boolean(vertex.observed), needs: needsOf(key, vertex.value), unmet, held_by: [], error: '', declared_by: vertex.source && !vertex.base ? [{ source: vertex.source, place: vertex.place, txn: vertex.changedBy ?? 1, heard: true }] : [] };
  }

  items(query) {
    const [limit, after] = [Number(query.get('limit') ?? 1000), query.get('after') ?? ''];
    const keys = [...this.vertices.keys()].sort().filter((key) => key > after);
    const page = keys.slice(0, limit);
    return { items: page.map((key) => this.item(key)), ...(keys.length > limit ? { next: page.at(-1) } : {}) };
  }

  explain(key) {
    const links = [];
    const follow = (each, depth) => {
      const vertex = this.vertices.get(each);
      const unmet = vertex ? this.unmet(each, vertex) : [];
      const missing = !vertex ? 'nobody declares it' : unmet.length && vertex.state === 'PENDING' ? `waits for ${unmet.length} of its needs` : 'exists as declared';
      links.push({ depth, key: each, state: vertex?.state ?? 'NONEXISTENT', why: missing, place: vertex?.place });
      if (depth < 6 && vertex?.state === 'PENDING') for (const need of unmet) follow(need, depth + 1);
    };
    follow(key, 0);
    const vertex = this.vertices.get(key);
    const last = this.timeline(key).at(-1);
    return { key, state: vertex?.state ?? 'NONEXISTENT', kind: kindOf(key), declared_by: this.item(key)?.declared_by ?? [], links, last_change: last, author: last?.txn_type === 'refresh' ? 'healing' : 'declared', last_error: '', last_error_txn: 0, unblock: links.filter((link) => link.state === 'NONEXISTENT').map((link) => `declare ${link.key}, or bring it into being`), paused: this.paused.some((prefix) => key.startsWith(prefix)) };
  }

  timeline(key) {
    return this.transactions.flatMap(({ summary, planned }) => planned.filter((step) => step.key === key).map((step) => ({ txn: summary.seq, at: summary.start, action: step.action, before: step.before.state, state: step.after.state, value: step.after.value, error: '', txn_type: summary.txn_type, description: summary.description })));
  }

  graph(at) {
    const vertices = at === null ? this.vertices : (this.snapshots.get(Number(at)) ?? new Map());
    const edges = [];
    for (const [key, vertex] of vertices) {
      if (vertex.base) edges.push({ from: key, to: vertex.base, edge_type: 'derived', met: true });
      for (const need of needsOf(key, vertex.value)) if (need !== vertex.base) edges.push({ from: key, to: need, edge_type: 'needs', met: vertices.get(need)?.actual !== undefined });
    }
    return { after_txn: at === null ? this.#seq : Number(at), vertices: [...vertices].sort().map(([key, vertex]) => ({ key, kind: kindOf(key), state: vertex.state, base: vertex.base, value: vertex.value })), edges };
  }

  diff(from, to) {
    const [first, second] = [this.snapshots.get(Number(from)) ?? new Map(), to === null ? this.vertices : (this.snapshots.get(Number(to)) ?? new Map())];
    const side = (vertex) => ({ state: vertex?.state ?? 'NONEXISTENT', value: vertex?.value ?? null });
    return [...new Set([...first.keys(), ...second.keys()])].sort().map((key) => ({ key, before: side(first.get(key)), after: side(second.get(key)) })).filter(({ before, after }) => JSON.stringify(before) !== JSON.stringify(after));
  }
}
