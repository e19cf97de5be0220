// Drawing the graph on a canvas. Decided here: what is drawn at which scale, and that only what is seen is drawn.
// What is not decided: where things stand (`layout`), what the colours are (`palette`), what a gesture does.
import { LOOKS } from '../format/states';
import { shortened } from '../format/values';
import type { State } from '../wire/types';
import { toWorld, type Camera, type Size } from './camera';
import { around, serves, type Kept } from './layer';
import { BLOCK } from './layout';
import type { Mark } from './model';
import type { Palette } from './palette';
import type { Placed } from './place';

/** What is special about some vertices. */
export interface Emphasis {
  /** Rises when states changed inside the scene. */
  revision: number;
  selected: number;
  hovered: number;
  touched: Set<string>;
  marks: Map<string, Mark>;
}

const MARK_SIGNS: Record<Mark, string> = { added: '+', removed: '−', changed: '~' };
/** How many tiles are drawn with border and glyph. */
const MOST_NEAR = 2500;
/** How many glyphs are drawn of one state while the tiles are small. */
const MOST_FAR = 2000;
const GLYPHS = new Map<State, Path2D>();

const glyph = (state: State): Path2D => {
  let path = GLYPHS.get(state);
  if (!path) GLYPHS.set(state, (path = new Path2D(LOOKS[state].glyph)));
  return path;
};

interface View { left: number; top: number; right: number; bottom: number }

export class Painter {
  #names = new Map<string, string>();
  #font = '';
  #kept: Kept | undefined;
  #aside = document.createElement('canvas');
  private context: CanvasRenderingContext2D;

  constructor(private readonly screen: CanvasRenderingContext2D, private palette: Palette) {
    this.context = screen;
    this.usePalette(palette);
  }

  usePalette(palette: Palette): void {
    this.palette = palette;
    this.#font = palette.font;
    this.#names.clear();
    this.#kept = undefined;
  }

  /** Draws; the answer says whether it is exactly what is, and not what was kept while somebody moves. */
  paint(placed: Placed, camera: Camera, size: Size, ratio: number, emphasis: Emphasis, moving: boolean): boolean {
    if (placed.layout.mode === 'layered') {
      this.#begin(camera, size, ratio);
      this.#layered(placed, camera, viewOf(placed, camera, size), emphasis);
      return true;
    }
    const { revision } = emphasis;
    if (!serves(this.#kept, placed.layout, revision, camera, size, ratio, moving)) this.#keep(placed, camera, size, ratio, revision);
    const kept = this.#kept as Kept;
    this.#begin(camera, size, ratio);
    const [width, height] = [kept.size.width / kept.camera.scale, kept.size.height / kept.camera.scale];
    this.context.drawImage(this.#aside, kept.camera.x, kept.camera.y, width, height);
    this.#special(placed, camera, emphasis);
    return kept.camera.scale === camera.scale && kept.revision === revision;
  }

  #begin(camera: Camera, size: Size, ratio: number): void {
    const { context } = this;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, size.width, size.height);
    context.setTransform(ratio * camera.scale, 0, 0, ratio * camera.scale, -camera.x * camera.scale * ratio, -camera.y * camera.scale * ratio);
  }

  /** Draws blocks and tiles of the view, and of some of what is around it, aside. */
  #keep(placed: Placed, camera: Camera, size: Size, ratio: number, revision: number): void {
    const wide = around(camera, size);
    const aside = this.#aside.getContext('2d');
    if (!aside) return;
    [this.#aside.width, this.#aside.height] = [Math.ceil(wide.size.width * ratio), Math.ceil(wide.size.height * ratio)];
    // The size in whole points is what is copied back.
    const whole = { width: this.#aside.width / ratio, height: this.#aside.height / ratio };
    this.#kept = { of: placed.layout, revision, camera: wide.camera, size: whole, ratio };
    this.context = aside;
    this.#begin(wide.camera, whole, ratio);
    const view = viewOf(placed, wide.camera, whole);
    this.#blocks(placed, wide.camera, view);
    this.#tiles(placed, wide.camera, view);
    this.context = this.screen;
  }

  #layered(placed: Placed, camera: Camera, view: View, emphasis: Emphasis): void {
    this.#bonds(placed, camera, view, emphasis);
    const { layout, scene } = placed;
    for (let index = 0; index < scene.nodes.length; index += 1) {
      const [x, y] = [layout.x[index] as number, layout.y[index] as number];
      if (x < view.left || x > view.right || y < view.top || y > view.bottom) continue;
      this.#card(placed, index, camera, emphasis);
    }
  }

  #bonds(placed: Placed, camera: Camera, view: View, emphasis: Emphasis): void {
    const { context, palette } = this;
    const { scene, layout } = placed;
    const near = emphasis.selected;
    scene.bonds.forEach((bond, index) => {
      const [start, end] = [layout.starts[index] as number, layout.starts[index + 1] as number];
      if (end - start < 4) return;
      const route = layout.points.subarray(start, end);
      if (!seen(route, view)) return;
      const close = bond.from === near || bond.to === near;
      // What follows from other lines is drawn for whoever asks about it.
      if (bond.implied && !close) return;
      const unmet = !bond.met;
      context.globalAlpha = near >= 0 && !close && !unmet ? 0.35 : 1;
      context.strokeStyle = unmet ? palette.unmet : close ? palette.accent : bond.type === 'derived' ? palette.derived : palette.bond;
      context.lineWidth = (bond.implied ? 1 : unmet || close ? 2 : 1.25) * Math.max(1, 0.6 / camera.scale);
      context.setLineDash(unmet ? [6, 4] : bond.implied ? [2, 4] : bond.any ? [10, 3] : []);
      trace(context, route);
      context.stroke();
      context.setLineDash([]);
      if (camera.scale > 0.3) this.#head(route, bond.type);
    });
    context.globalAlpha = 1;
  }

  /** The head of an arrow at the item that is needed; what is derived begins with a dot. */
  #head(route: Float32Array, type: 'needs' | 'derived'): void {
    const { context } = this;
    const [x, y] = [route[0] as number, route[1] as number];
    const way = (route[2] as number) < x ? -1 : 1;
    context.beginPath();
    if (type === 'derived') {
      context.arc(x + 3 * way, y, 3, 0, Math.PI * 2);
    } else {
      context.moveTo(x, y);
      context.lineTo(x + 8 * way, y - 4);
      context.lineTo(x + 8 * way, y + 4);
      context.closePath();
    }
    context.fillStyle = context.strokeStyle;
    context.fill();
  }

  #card(placed: Placed, index: number, camera: Camera, emphasis: Emphasis): void {
    const { context, palette } = this;
    const { scene, layout } = placed;
    const node = scene.nodes[index];
    if (!node) return;
    const [width, height] = [layout.width, layout.height];
    const [x, y] = [(layout.x[index] as number) - width / 2, (layout.y[index] as number) - height / 2];
    const look = LOOKS[node.state];
    const tone = node.ghost ? { line: palette.unmet, soft: palette.ground } : palette.tones[look.tone];
    const radius = node.base ? height / 2 : 8;
    if (emphasis.touched.has(node.key)) this.#ring(x, y, width, height, radius, palette.gold, 3, 2.5);
    if (index === emphasis.selected) this.#ring(x, y, width, height, radius, palette.accent, 6, 2.5);
    else if (index === emphasis.hovered) this.#ring(x, y, width, height, radius, palette.accent, 5, 1);
    context.beginPath();
    context.roundRect(x, y, width, height, radius);
    context.fillStyle = tone.soft;
    context.fill();
    context.strokeStyle = tone.line;
    context.lineWidth = 1.5;
    context.setLineDash(node.ghost ? [3, 3] : look.dash);
    context.stroke();
    context.setLineDash([]);
    if (camera.scale < 0.08) return;
    // Far away the card holds its glyph and one large line; further away the glyph stands alone, as large as the card.
    const far = camera.scale < 0.65;
    const alone = camera.scale < 0.25;
    context.save();
    if (far) {
      context.translate(alone ? x + width / 2 - 18 : x + 10, y + height / 2 - (alone ? 18 : 14));
      context.scale(alone ? 2.25 : 1.75, alone ? 2.25 : 1.75);
    } else {
      context.translate(x + (node.base ? 16 : 12), y + height / 2 - 8);
    }
    context.strokeStyle = tone.line;
    context.lineWidth = 1.8;
    context.lineCap = 'round';
    context.lineJoin = 'round';
    context.stroke(glyph(node.ghost ? 'MISSING' : node.state));
    context.restore();
    const mark = emphasis.marks.get(node.key);
    if (mark) this.#badge(x + width - 6, y + 2, mark);
    if (alone) return;
    const indent = node.base ? 42 : 38;
    const room = width - indent - (node.base ? 20 : 12);
    context.textBaseline = 'alphabetic';
    context.fillStyle = palette.ink;
    if (far) {
      // As large as it takes to be read, in few steps: how a name is shortened is remembered for each of them.
      const large = Math.min(26, 2 * Math.ceil(4.5 / camera.scale));
      context.font = `600 ${large}px ${this.#font}`;
      context.fillText(this.#fitted(node.name, room, `f${large}`), x + indent + 6, y + height / 2 + large * 0.36);
      return;
    }
    context.font = `600 13px ${this.#font}`;
    context.fillText(this.#fitted(node.name, room, 'b'), x + indent, y + height / 2 - 2);
    context.fillStyle = palette.quiet;
    context.font = `11.5px ${this.#font}`;
    const second = node.ghost ? 'needed, not there' : `${node.kind}${look.attention ? ` · ${node.state}` : ''}`;
    context.fillText(this.#fitted(second, room, 'n'), x + indent, y + height / 2 + 14);
  }

  #ring(x: number, y: number, width: number, height: number, radius: number, colour: string, out: number, line: number): void {
    const { context } = this;
    context.beginPath();
    context.roundRect(x - out, y - out, width + 2 * out, height + 2 * out, radius + out);
    context.strokeStyle = colour;
    context.lineWidth = line;
    context.stroke();
  }

  #badge(x: number, y: number, mark: Mark): void {
    const { context, palette } = this;
    context.beginPath();
    context.arc(x, y, 9, 0, Math.PI * 2);
    context.fillStyle = palette.marks[mark];
    context.fill();
    context.fillStyle = palette.ground;
    context.font = `700 14px ${this.#font}`;
    context.textAlign = 'center';
    context.textBaseline = 'middle';
    context.fillText(MARK_SIGNS[mark], x, y + 0.5);
    context.textAlign = 'start';
  }

  #blocks(placed: Placed, camera: Camera, view: View): void {
    const { context, palette } = this;
    for (const block of placed.layout.blocks) {
      if (block.x > view.right || block.x + block.width < view.left || block.y > view.bottom || block.y + block.height < view.top) continue;
      context.beginPath();
      context.roundRect(block.x, block.y, block.width, block.height, 12);
      context.fillStyle = palette.raised;
      context.fill();
      context.strokeStyle = palette.line;
      context.lineWidth = 1;
      context.stroke();
      const height = Math.min(40, Math.max(15, 13 / camera.scale));
      context.fillStyle = palette.ink;
      context.font = `600 ${height}px ${this.#font}`;
      context.textBaseline = 'middle';
      const title = `${placed.kinds[block.kind] ?? ''}  ${block.count}`;
      context.save();
      context.beginPath();
      context.rect(block.x, block.y - 24, block.width - 8, BLOCK.title + 48);
      context.clip();
      context.fillText(title, block.x + BLOCK.padding, block.y + (BLOCK.title + BLOCK.padding) / 2);
      context.restore();
    }
  }

  /** Tiles by state, one path each: ten thousand cost a dozen fills. */
  #tiles(placed: Placed, camera: Camera, view: View): void {
    const { context, palette } = this;
    const { layout, scene } = placed;
    const groups = new Map<State, number[]>();
    let visible = 0;
    for (let index = 0; index < scene.nodes.length; index += 1) {
      const [x, y] = [layout.x[index] as number, layout.y[index] as number];
      if (x < view.left || x > view.right || y < view.top || y > view.bottom) continue;
      const state = scene.nodes[index]?.state ?? 'NONEXISTENT';
      const members = groups.get(state);
      if (members) members.push(index);
      else groups.set(state, [index]);
      visible += 1;
    }
    const near = camera.scale > 0.45 && visible <= MOST_NEAR;
    const [halfWidth, halfHeight] = [layout.width / 2, layout.height / 2];
    for (const [state, members] of groups) {
      const path = new Path2D();
      for (const index of members) {
        const [x, y] = [(layout.x[index] as number) - halfWidth, (layout.y[index] as number) - halfHeight];
        if (near) path.roundRect(x, y, layout.width, layout.height, 4);
        else path.rect(x, y, layout.width, layout.height);
      }
      const look = LOOKS[state];
      const tone = palette.tones[look.tone];
      // Far away a border is as dear as it is thin: a paler fill stands for it.
      context.globalAlpha = near || look.attention ? 1 : 0.4;
      context.fillStyle = near ? tone.soft : tone.line;
      context.fill(path);
      context.globalAlpha = 1;
      if (near) {
        context.strokeStyle = tone.line;
        context.lineWidth = 1.2;
        context.setLineDash(look.dash);
        context.stroke(path);
        context.setLineDash([]);
      }
      if (near) this.#glyphs(placed, state, members, tone.line);
      else if (look.attention && camera.scale > 0.15 && members.length <= MOST_FAR) this.#glyphs(placed, state, members, palette.ground);
    }
  }

  #glyphs(placed: Placed, state: State, members: number[], colour: string): void {
    const { context } = this;
    const path = new Path2D();
    for (const index of members) {
      const [x, y] = [placed.layout.x[index] as number, placed.layout.y[index] as number];
      path.addPath(glyph(state), { a: 0.75, d: 0.75, e: x - 6, f: y - 6 });
    }
    context.strokeStyle = colour;
    context.lineWidth = 1.3;
    context.lineCap = 'round';
    context.stroke(path);
  }

  /** What stands out of the tiles: touched, marked, selected, and the bonds of the selected one. */
  #special(placed: Placed, camera: Camera, emphasis: Emphasis): void {
    const { context, palette } = this;
    const { layout, scene } = placed;
    const { width, height } = layout;
    const pen = Math.max(1.5, 1.5 / camera.scale);
    const box = (index: number, colour: string, out: number): void =>
      this.#ring((layout.x[index] as number) - width / 2, (layout.y[index] as number) - height / 2, width, height, 4, colour, out, pen);
    for (const key of emphasis.touched) {
      const index = scene.byKey.get(key);
      if (index !== undefined) box(index, palette.gold, 2);
    }
    for (const [key, mark] of emphasis.marks) {
      const index = scene.byKey.get(key);
      if (index === undefined) continue;
      box(index, palette.marks[mark], 2);
      if (camera.scale > 0.3) this.#badge((layout.x[index] as number) + width / 2, (layout.y[index] as number) - height / 2, mark);
    }
    if (emphasis.hovered >= 0) box(emphasis.hovered, palette.accent, 3);
    if (emphasis.selected < 0) return;
    for (const bond of scene.bonds) {
      if (bond.from !== emphasis.selected && bond.to !== emphasis.selected) continue;
      context.beginPath();
      const [fromX, fromY] = [layout.x[bond.from] as number, layout.y[bond.from] as number];
      const [toX, toY] = [layout.x[bond.to] as number, layout.y[bond.to] as number];
      context.moveTo(fromX, fromY);
      context.quadraticCurveTo((fromX + toX) / 2, Math.min(fromY, toY) - 30, toX, toY);
      context.strokeStyle = bond.met ? palette.accent : palette.unmet;
      context.setLineDash(bond.met ? [] : [6, 4]);
      context.lineWidth = pen;
      context.stroke();
      context.setLineDash([]);
    }
    box(emphasis.selected, palette.accent, 4);
  }

  /** A text shortened in its middle: beginnings and ends tell keys apart. */
  #fitted(text: string, room: number, face: 'b' | 'n' | `f${number}`): string {
    const name = `${face}${room}${text}`;
    const known = this.#names.get(name);
    if (known !== undefined) return known;
    const { context } = this;
    let shown = text;
    if (context.measureText(text).width > room) {
      let [low, high] = [1, text.length];
      while (low < high) {
        const kept = (low + high + 1) >> 1;
        if (context.measureText(shortened(text, kept)).width <= room) low = kept;
        else high = kept - 1;
      }
      shown = shortened(text, low);
    }
    this.#names.set(name, shown);
    return shown;
  }
}

function viewOf(placed: Placed, camera: Camera, size: Size): View {
  const [left, top] = toWorld(camera, 0, 0);
  const [right, bottom] = toWorld(camera, size.width, size.height);
  const { width, height } = placed.layout;
  return { left: left - width, top: top - height, right: right + width, bottom: bottom + height };
}

function seen(route: Float32Array, view: View): boolean {
  let [left, top, right, bottom] = [Infinity, Infinity, -Infinity, -Infinity];
  for (let at = 0; at < route.length; at += 2) {
    const [x, y] = [route[at] as number, route[at + 1] as number];
    [left, right, top, bottom] = [Math.min(left, x), Math.max(right, x), Math.min(top, y), Math.max(bottom, y)];
  }
  return left <= view.right && right >= view.left && top <= view.bottom && bottom >= view.top;
}

/** A smooth line through points that go from left to right. */
function trace(context: CanvasRenderingContext2D, route: Float32Array): void {
  context.beginPath();
  context.moveTo(route[0] as number, route[1] as number);
  for (let at = 2; at < route.length; at += 2) {
    const [fromX, fromY] = [route[at - 2] as number, route[at - 1] as number];
    const [x, y] = [route[at] as number, route[at + 1] as number];
    const middle = (fromX + x) / 2;
    context.bezierCurveTo(middle, fromY, middle, y, x, y);
  }
}
