// Asking the worker. Decided here: one question at a time, and of the waiting ones only the newest is asked.
import { CARD, type Layout, type Shape } from './layout';
import type { Scene } from './model';

/** What a card needs beside its name, and about as wide as a letter is where names are small, in points. */
const [BESIDE, LETTER] = [56, 9.5];

/** How wide a card is: nine of ten names shall be read as a whole. */
function widthOf(scene: Scene): number {
  const lengths = scene.nodes.map((node) => node.name.length).sort((one, other) => one - other);
  const most = lengths[Math.floor(lengths.length * 0.9)] ?? 0;
  return Math.round(Math.min(CARD.most, Math.max(CARD.least, BESIDE + most * LETTER)));
}

/** The numbers of a scene, and its kinds in the order in which they are numbered: by name. */
export function shapeOf(scene: Scene, aspect: number): { shape: Shape; kinds: string[] } {
  const kinds = [...new Set(scene.nodes.map((node) => node.kind))].sort();
  const numbers = new Map(kinds.map((kind, index) => [kind, index]));
  return {
    kinds,
    shape: {
      kinds: scene.nodes.map((node) => numbers.get(node.kind) as number),
      from: scene.bonds.map((bond) => bond.from),
      to: scene.bonds.map((bond) => bond.to),
      implied: scene.bonds.map((bond) => bond.implied),
      kindCount: kinds.length,
      width: widthOf(scene),
      aspect,
    },
  };
}

export interface Placed { scene: Scene; layout: Layout; kinds: string[] }

export class Placer {
  #worker: Worker | undefined;
  #turn = 0;
  #under: { scene: Scene; kinds: string[]; turn: number } | undefined;
  #next: { scene: Scene; aspect: number } | undefined;

  constructor(private readonly done: (placed: Placed) => void) {}

  /** Asks for the places of a scene; the answer comes to `done` unless a newer scene overtakes it. */
  ask(scene: Scene, aspect: number): void {
    if (this.#under) this.#next = { scene, aspect };
    else this.#start(scene, aspect);
  }

  stop(): void {
    this.#worker?.terminate();
    this.#worker = undefined;
    this.#under = undefined;
    this.#next = undefined;
  }

  #start(scene: Scene, aspect: number): void {
    this.#worker ??= this.#hire();
    const { shape, kinds } = shapeOf(scene, aspect);
    this.#turn += 1;
    this.#under = { scene, kinds, turn: this.#turn };
    this.#worker.postMessage({ turn: this.#turn, shape });
  }

  #hire(): Worker {
    const worker = new Worker(new URL('./layout.worker.ts', import.meta.url), { type: 'module' });
    worker.onmessage = (message: MessageEvent<{ turn: number; placed: Layout }>): void => {
      const asked = this.#under;
      if (!asked || asked.turn !== message.data.turn) return;
      this.#under = undefined;
      const next = this.#next;
      this.#next = undefined;
      if (next) this.#start(next.scene, next.aspect);
      else this.done({ scene: asked.scene, kinds: asked.kinds, layout: message.data.placed });
    };
    return worker;
  }
}
