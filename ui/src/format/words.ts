// What the agent says in several lines, for places that have one.

export interface Titled {
  /** The first line. */
  title: string;
  /** The others in one line, without their bullets and without whole values. */
  more: string;
}

/** A description whose first line is its title and whose others are points. */
export function titled(description: string): Titled {
  const [title = '', ...points] = description.split('\n');
  return { title, more: points.map((point) => point.replace(/^\* /, '').replace(/ \{.*\}$/, '')).join(', ') };
}
