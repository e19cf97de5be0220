// What is being written on the plan view. It outlives the view, so that a look at the graph loses nothing.
import type { TextDocument } from '../wire/types';

const FIRST = 'page.yaml';

class PlanDraft {
  documents = $state<TextDocument[]>([{ name: FIRST, text: '' }]);
  shown = $state(0);
  source = $state('page');
  everything = $state(false);
  onFailure = $state<'revert' | 'continue'>('revert');

  /** The documents that say something. */
  filled(): TextDocument[] {
    return this.documents.filter((document) => document.text.trim() !== '').map(({ name, text }) => ({ name, text }));
  }

  /** Puts documents in, each instead of the one of its name; an empty first one goes. */
  add(documents: TextDocument[]): void {
    const names = new Set(documents.map((document) => document.name));
    const kept = this.documents.filter((document) => !names.has(document.name) && document.text.trim() !== '');
    this.documents = [...kept, ...documents];
    this.shown = kept.length;
  }

  remove(index: number): void {
    this.documents = this.documents.filter((_, at) => at !== index);
    if (this.documents.length === 0) this.documents = [{ name: FIRST, text: '' }];
    this.shown = Math.min(this.shown, this.documents.length - 1);
  }
}

export const draft = new PlanDraft();
