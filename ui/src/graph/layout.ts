// Where everything stands. Decided here: up to LAYERED vertices are laid out in layers from left to right, what is
// needed left of what needs it; more are packed into one block per kind, each item a tile, so that ten thousand are
// seen at once. Pure: the worker calls it with numbers only.
import dagre from '@dagrejs/dagre';

/** Above this many vertices the picture is packed. */
export const LAYERED = 1000;

export const CARD = { least: 168, most: 248, height: 44 };
export const TILE = { width: 28, height: 20, gap: 4 };
export const BLOCK = { padding: 16, title: 40 };

/**
 * What has to be placed: vertices by number, each with the number of its kind, how wide a card is, and how wide the whole shall
 * be for its height. A bond that is implied has no say in it.
 */
export interface Shape { kinds: number[]; from: number[]; to: number[]; implied: boolean[]; kindCount: number; width: number; aspect: number }

export interface Block { kind: number; x: number; y: number; width: number; height: number; count: number }

export interface Layout {
  mode: 'layered' | 'packed';
  /** The centres of the vertices. */
  x: Float32Array;
  y: Float32Array;
  /** The size of every vertex. */
  width: number;
  height: number;
  /** The points of each bond, one after another; `starts[i]` is where bond i begins. Empty when packed. */
  points: Float32Array;
  starts: Uint32Array;
  /** The blocks of the kinds; empty when layered. */
  blocks: Block[];
  bounds: { x: number; y: number; width: number; height: number };
}

export function layout(shape: Shape): Layout {
  return shape.kinds.length <= LAYERED ? layered(shape) : packed(shape);
}

interface Part { nodes: number[]; bonds: number[] }

/** The connected parts, by their first vertex. */
function partsOf(shape: Shape): Part[] {
  const count = shape.kinds.length;
  const root = Int32Array.from({ length: count }, (_, index) => index);
  const find = (node: number): number => {
    let top = node;
    while (root[top] !== top) {
      root[top] = root[root[top] as number] as number;
      top = root[top] as number;
    }
    return top;
  };
  shape.from.forEach((from, bond) => {
    const [one, other] = [find(from), find(shape.to[bond] as number)];
    if (one !== other) root[Math.max(one, other)] = Math.min(one, other);
  });
  const parts = new Map<number, Part>();
  for (let node = 0; node < count; node += 1) {
    const top = find(node);
    const part = parts.get(top) ?? { nodes: [], bonds: [] };
    part.nodes.push(node);
    parts.set(top, part);
  }
  shape.from.forEach((from, bond) => parts.get(find(from))?.bonds.push(bond));
  return [...parts.values()];
}

function layered(shape: Shape): Layout {
  const count = shape.kinds.length;
  const [x, y] = [new Float32Array(count), new Float32Array(count)];
  const routes: number[][] = shape.from.map(() => []);
  const boxes: { width: number; height: number; part: Part }[] = [];
  const card = { width: shape.width, height: CARD.height };
  for (const part of partsOf(shape)) {
    const placed = new dagre.graphlib.Graph({ multigraph: true });
    placed.setGraph({ rankdir: 'LR', nodesep: 10, ranksep: 64, edgesep: 6, marginx: 0, marginy: 0, ranker: part.nodes.length > 300 ? 'longest-path' : 'network-simplex' });
    placed.setDefaultEdgeLabel(() => ({}));
    for (const node of part.nodes) placed.setNode(String(node), { ...card });
    // What is needed stands left of what needs it, so the drawing goes against the bond.
    const drawn = part.bonds.filter((bond) => !shape.implied[bond]);
    for (const bond of drawn) placed.setEdge(String(shape.to[bond]), String(shape.from[bond]), {}, String(bond));
    dagre.layout(placed);
    for (const node of part.nodes) {
      const at = placed.node(String(node));
      x[node] = at.x ?? 0;
      y[node] = at.y ?? 0;
    }
    for (const bond of part.bonds) {
      const line = shape.implied[bond] ? undefined : (placed.edge(String(shape.to[bond]), String(shape.from[bond]), String(bond)) as { points?: Point[] });
      const [needed, needing] = [placed.node(String(shape.to[bond])), placed.node(String(shape.from[bond]))];
      const over = { x: (needed.x + needing.x) / 2, y: Math.min(needed.y, needing.y) - RISE };
      routes[bond] = routed(line ? (line.points ?? []).slice(1, -1) : [over], needed, needing, shape.width);
    }
    const size = placed.graph() as { width?: number; height?: number };
    boxes.push({ width: size.width ?? card.width, height: size.height ?? card.height, part });
  }
  const bounds = shelve(boxes, 48, shape.aspect, (box, dx, dy) => {
    for (const node of box.part.nodes) {
      x[node] = (x[node] as number) + dx;
      y[node] = (y[node] as number) + dy;
    }
    for (const bond of box.part.bonds) {
      routes[bond] = (routes[bond] as number[]).map((value, index) => value + (index % 2 ? dy : dx));
    }
  });
  const starts = new Uint32Array(routes.length + 1);
  routes.forEach((route, bond) => { starts[bond + 1] = (starts[bond] as number) + route.length; });
  return { mode: 'layered', x, y, ...card, points: Float32Array.from(routes.flat()), starts, blocks: [], bounds };
}

interface Point { x: number; y: number }

/** How far a line that was not laid out rises over the straight way. */
const RISE = 48;

/** The line from the right side of what is needed to the left side of what needs it. */
function routed(points: Point[], left: Point, right: Point, width: number): number[] {
  const inner = points.flatMap((point) => [point.x, point.y]);
  // Of those that need each other, one stands on the wrong side: its line leaves the other way.
  const way = left.x <= right.x ? width / 2 : -width / 2;
  return [left.x + way, left.y, ...inner, right.x - way, right.y];
}

interface Shelved { width: number; height: number; places: [number, number][] }

/** Boxes side by side on shelves no wider than the limit. */
function shelved(boxes: { width: number; height: number }[], order: number[], gap: number, limit: number): Shelved {
  const places: [number, number][] = boxes.map(() => [0, 0]);
  let [left, top, shelf, width] = [0, 0, 0, 0];
  for (const index of order) {
    const box = boxes[index] as { width: number; height: number };
    if (left > 0 && left + box.width > limit) {
      top += shelf + gap;
      [left, shelf] = [0, 0];
    }
    places[index] = [left, top];
    left += box.width + gap;
    shelf = Math.max(shelf, box.height);
    width = Math.max(width, left - gap);
  }
  return { width, height: top + shelf, places };
}

/** Puts boxes on shelves, the highest first, in the width that lets the whole be seen largest. */
function shelve<B extends { width: number; height: number }>(
  boxes: B[],
  gap: number,
  aspect: number,
  put: (box: B, x: number, y: number) => void,
): { x: number; y: number; width: number; height: number } {
  const order = boxes
    .map((_, index) => index)
    .sort((one, other) => (boxes[other] as B).height - (boxes[one] as B).height || one - other);
  const area = boxes.reduce((sum, box) => sum + (box.width + gap) * (box.height + gap), 0);
  const widest = boxes.reduce((most, box) => Math.max(most, box.width), 0);
  const around = Math.sqrt(area * aspect);
  const limits = [widest, 2 * widest + gap, 3 * widest + 2 * gap, ...[0.7, 0.85, 1, 1.15, 1.3, 1.5].map((part) => Math.max(widest, around * part))];
  const need = (one: Shelved): number => Math.max(one.width / aspect, one.height);
  const tried = limits.map((limit) => shelved(boxes, order, gap, limit));
  const best = tried.reduce((least, one) => (need(one) < need(least) ? one : least));
  boxes.forEach((box, index) => put(box, ...(best.places[index] as [number, number])));
  return { x: 0, y: 0, width: best.width, height: best.height };
}

function packed(shape: Shape): Layout {
  const count = shape.kinds.length;
  const [x, y] = [new Float32Array(count), new Float32Array(count)];
  const members: number[][] = Array.from({ length: shape.kindCount }, () => []);
  shape.kinds.forEach((kind, node) => members[kind]?.push(node));
  const [stepX, stepY] = [TILE.width + TILE.gap, TILE.height + TILE.gap];
  const boxes = members
    .map((nodes, kind) => {
      const columns = Math.max(6, Math.ceil(Math.sqrt((nodes.length * 1.6 * stepY) / stepX)));
      const rows = Math.ceil(nodes.length / columns);
      return {
        kind, nodes, columns,
        width: columns * stepX - TILE.gap + 2 * BLOCK.padding,
        height: rows * stepY - TILE.gap + 2 * BLOCK.padding + BLOCK.title,
      };
    })
    .filter((box) => box.nodes.length > 0);
  const blocks: Block[] = [];
  const bounds = shelve(boxes, 32, shape.aspect, (box, left, top) => {
    blocks.push({ kind: box.kind, x: left, y: top, width: box.width, height: box.height, count: box.nodes.length });
    box.nodes.forEach((node, index) => {
      x[node] = left + BLOCK.padding + (index % box.columns) * stepX + TILE.width / 2;
      y[node] = top + BLOCK.title + BLOCK.padding + Math.floor(index / box.columns) * stepY + TILE.height / 2;
    });
  });
  return {
    mode: 'packed', x, y, width: TILE.width, height: TILE.height,
    points: new Float32Array(0), starts: new Uint32Array(shape.from.length + 1), blocks, bounds,
  };
}
