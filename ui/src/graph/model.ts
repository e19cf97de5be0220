// The graph as it is drawn. Decided here: which vertices are seen, what stands for a need that nothing meets, and
// what is a neighbour of what. What is not decided: where anything stands; see `layout`.
import { needOf } from '../format/needs';
import type { Difference, Edge, Graph, State, Vertex } from '../wire/types';

export interface Node {
  key: string;
  kind: string;
  /** The key without what all keys of the kind begin with. */
  name: string;
  state: State;
  base: string;
  /** What is needed and not there: no item, only a name. */
  ghost: boolean;
}

/** A connection; `any` if one of several such bonds would do, `implied` if others lead to the same place. */
export interface Bond { from: number; to: number; type: 'needs' | 'derived'; met: boolean; any: boolean; implied: boolean }

export interface Scene { nodes: Node[]; bonds: Bond[]; byKey: Map<string, number> }

export type Mark = 'added' | 'removed' | 'changed';

/** How many members of a prefix a need is drawn to. */
const MEMBERS = 12;

/** The kind's word for the eye: what owns no kind is a property, known by the first parts of its key. */
export const kindOf = (vertex: Pick<Vertex, 'key' | 'kind'>): string =>
  vertex.kind || vertex.key.split('/').slice(0, 2).join('.') || 'unknown';

/** `linux/address/left/eth0/10.0.0.1/24` of the kind `linux.address` is `left/eth0/10.0.0.1/24`. */
export function nameOf(key: string, kind: string): string {
  const parts = key.split('/');
  const words = kind.split('.');
  let shared = 0;
  while (shared < words.length && parts[shared] === words[shared]) shared += 1;
  if (shared === 0) return key;
  const rest = parts.slice(Math.max(shared, Math.min(2, parts.length - 1))).join('/');
  return rest || key;
}

export function sceneOf(graph: Graph): Scene {
  const nodes: Node[] = graph.vertices.map((vertex) => {
    const kind = kindOf(vertex);
    return { key: vertex.key, kind, name: nameOf(vertex.key, kind), state: vertex.state, base: vertex.base, ghost: false };
  });
  const byKey = new Map(nodes.map((node, index) => [node.key, index]));
  const sorted = [...byKey.keys()].sort();
  const bonds: Bond[] = [];
  const seen = new Set<string>();
  const bind = (from: number, to: number, edge: Edge, any: boolean): void => {
    const name = `${from} ${to} ${edge.type}`;
    if (from === to || seen.has(name)) return;
    seen.add(name);
    bonds.push({ from, to, type: edge.type, met: edge.met, any, implied: false });
  };
  for (const edge of graph.edges) {
    const from = byKey.get(edge.from);
    if (from === undefined) continue;
    const targets = targetsOf(edge, byKey, sorted);
    if (targets.length === 0) {
      if (edge.met) continue;
      byKey.set(edge.to, nodes.length);
      targets.push(nodes.length);
      nodes.push({ key: edge.to, kind: 'not there', name: edge.to, state: 'NONEXISTENT', base: '', ghost: true });
    }
    for (const to of targets) bind(from, to, edge, targets.length > 1);
  }
  return { nodes, bonds: implied(nodes.length, bonds), byKey };
}

/** Above this many vertices lines are drawn for one vertex at a time, and all of them. */
const MANY = 1000;

/**
 * The bonds, with those needs marked that follow from others: a route that needs a link which needs a namespace needs the
 * namespace, too. What is unmet, or one of several, never follows.
 */
function implied(count: number, bonds: Bond[]): Bond[] {
  if (count > MANY) return bonds.map((bond) => ({ ...bond, implied: false }));
  const below: number[][] = Array.from({ length: count }, () => []);
  for (const bond of bonds) below[bond.from]?.push(bond.to);
  const known = new Map<number, Set<number>>();
  /** What a vertex stands on, however far down. */
  const under = (node: number): Set<number> => {
    const found = known.get(node) ?? new Set<number>();
    if (known.has(node)) return found;
    known.set(node, found);
    for (const work = [node]; work.length > 0;) {
      for (const to of below[work.pop() as number] ?? []) if (!found.has(to)) { found.add(to); work.push(to); }
    }
    return found;
  };
  const derived = new Set(bonds.filter((bond) => bond.type === 'derived').map((bond) => `${bond.from} ${bond.to}`));
  return bonds.map((bond) => {
    const { from, to, type, met, any } = bond;
    if (type !== 'needs' || !met || any) return { ...bond, implied: false };
    // A way round that comes back to where it began is no way down.
    const leads = (next: number): boolean => next !== to && next !== from && under(next).has(to) && !under(next).has(from);
    return { ...bond, implied: derived.has(`${from} ${to}`) || (below[from] ?? []).some(leads) };
  });
}

function targetsOf(edge: Edge, byKey: Map<string, number>, sorted: string[]): number[] {
  const need = needOf(edge.to);
  const exact = byKey.get(edge.to) ?? byKey.get(need.key);
  if (exact !== undefined) return [exact];
  const found: number[] = [];
  // A prefix that stands alone is one of "any of" too.
  const prefixes = edge.met ? (need.key ? [need.key] : need.prefixes) : [];
  for (const prefix of prefixes) {
    for (let at = lowerBound(sorted, prefix); at < sorted.length && found.length < MEMBERS; at += 1) {
      const key = sorted[at] as string;
      if (!key.startsWith(prefix)) break;
      found.push(byKey.get(key) as number);
    }
  }
  return found;
}

function lowerBound(sorted: string[], text: string): number {
  let [low, high] = [0, sorted.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((sorted[middle] as string) < text) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** What each vertex is bound to, in both directions. */
export function neighbours(scene: Scene): number[][] {
  const near: number[][] = scene.nodes.map(() => []);
  for (const bond of scene.bonds) {
    near[bond.from]?.push(bond.to);
    near[bond.to]?.push(bond.from);
  }
  return near;
}

/** The part of a scene within so many bonds of an item. */
export function focused(scene: Scene, key: string, depth: number): Scene {
  const start = scene.byKey.get(key);
  if (start === undefined) return { nodes: [], bonds: [], byKey: new Map() };
  const near = neighbours(scene);
  const kept = new Set([start]);
  let edge = [start];
  for (let step = 0; step < depth; step += 1) {
    edge = edge.flatMap((node) => near[node] ?? []).filter((node) => !kept.has(node) && kept.add(node));
  }
  return part(scene, (index) => kept.has(index));
}

/** The part of a scene whose vertices pass; bonds between them stay. */
export function part(scene: Scene, passes: (index: number) => boolean): Scene {
  const renamed = new Map<number, number>();
  const nodes = scene.nodes.filter((_, index) => {
    if (!passes(index)) return false;
    renamed.set(index, renamed.size);
    return true;
  });
  const bonds = scene.bonds.flatMap((bond) => {
    const [from, to] = [renamed.get(bond.from), renamed.get(bond.to)];
    return from === undefined || to === undefined ? [] : [{ ...bond, from, to }];
  });
  // With a vertex a way may have gone, too.
  return { nodes, bonds: implied(nodes.length, bonds), byKey: new Map(nodes.map((node, index) => [node.key, index])) };
}

/** Two moments in one graph: what is there at either, with its needs, as at the second where it is there at both. */
export function union(first: Graph, second: Graph): Graph {
  const later = new Set(second.vertices.map((vertex) => vertex.key));
  return {
    afterTxn: second.afterTxn,
    vertices: [...second.vertices, ...first.vertices.filter((vertex) => !later.has(vertex.key))].sort((one, other) =>
      one.key < other.key ? -1 : 1,
    ),
    edges: [...second.edges, ...first.edges.filter((edge) => !later.has(edge.from))],
  };
}

const THERE = new Set<State>(['CONFIGURED', 'OBTAINED', 'DISCOVERED', 'REMOVING', 'PENDING', 'INVALID', 'FAILED', 'RETRYING', 'APPLYING', 'MISSING', 'UNIMPLEMENTED']);

/** How each item differs between two moments. */
export function marksOf(differences: Difference[]): Map<string, Mark> {
  return new Map(
    differences.map(({ key, before, after }): [string, Mark] => {
      const [was, is] = [THERE.has(before.state), THERE.has(after.state)];
      return [key, was && !is ? 'removed' : !was && is ? 'added' : 'changed'];
    }),
  );
}

/** Whether two scenes have the same vertices and bonds, so that one layout serves both. */
export function sameShape(one: Scene, other: Scene): boolean {
  return (
    one.nodes.length === other.nodes.length &&
    one.bonds.length === other.bonds.length &&
    one.nodes.every((node, index) => node.key === other.nodes[index]?.key) &&
    one.bonds.every((bond, index) => {
      const twin = other.bonds[index];
      return twin !== undefined && bond.from === twin.from && bond.to === twin.to && bond.type === twin.type && bond.implied === twin.implied;
    })
  );
}
