// Everything that the page of flows knows without asking for it. Read `wire/watch` for the connection itself.
import { announce } from '../state/announce.svelte';
import { Refusal, refusalOf } from '../wire/client';
import type { SentEvent } from '../wire/sse';
import { Watch, type Connection } from '../wire/watch';
import { causes, merged, titleOf, told, turned, type Cause, type Line } from './lines';

/** More lines than this that turn at once are told as a number. */
const FEW = 3;

class Board {
  connection = $state.raw<Connection>({ word: 'connecting' });
  lines = $state.raw<ReadonlyMap<string, Line>>(new Map());
  /** Whether the controller has read the whole cluster. */
  complete = $state(true);
  /** Whether anything was told at all. */
  begun = $state(false);
  heardAt = $state(0);
  #watch: Watch | undefined;

  start(): void {
    const hear = (event: SentEvent): void => this.#hear(event);
    this.#watch = new Watch(hear, (connection) => this.#connected(connection), undefined, () => './watch');
    void this.#watch.run();
  }

  /** Tries to connect at once. */
  hurry(): void {
    this.#watch?.hurry();
  }

  #connected(connection: Connection): void {
    const before = this.connection.word;
    this.connection = connection;
    if (connection.word === 'live') {
      this.heardAt = Date.now();
      if (before === 'lost') announce('Connected to the controller again.');
    } else if (connection.word === 'lost' && before === 'live') {
      announce('The connection to the controller is lost. What is shown may be out of date.', 'assertive');
    }
  }

  #hear(event: SentEvent): void {
    if (event.name !== 'lines') return;
    this.heardAt = Date.now();
    const news = told(JSON.parse(event.text) as unknown);
    const otherwise = turned(this.lines, news);
    if (otherwise.length > FEW) announce(`${otherwise.length} flows stand otherwise.`);
    else if (otherwise.length > 0) announce(otherwise.map((line) => `${titleOf(line)} in ${line.namespace}: ${line.together}.`).join(' '));
    this.lines = merged(this.lines, news);
    this.complete = news.complete;
    this.begun = true;
  }
}

export const board = new Board();

/** Why a flow stands as it does: a chain of causes for each of its parts. */
export async function explain(line: Line, signal: AbortSignal): Promise<Cause[][]> {
  const where = `./explain/${encodeURIComponent(line.namespace)}/${encodeURIComponent(line.flow)}`;
  const answer = await fetch(where, { headers: { accept: 'application/json' }, signal, cache: 'no-store' });
  if (answer.ok) return causes(await answer.json());
  const refusal = await refusalOf(answer);
  if (answer.status === 404) refusal.problem.message = 'the controller does not know this flow yet';
  if (answer.status === 503) {
    refusal.problem.message = 'this copy of the controller does not lead, or has a lot to do';
    refusal.problem.hint = 'the copy that holds the lease can tell; `kubectl get lease` shows which it is';
  }
  throw new Refusal(refusal.problem);
}
