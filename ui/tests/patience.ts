// How long the tests wait. Decided here, once: nothing is measured by it, so it is as long as a busy machine may need.

/** How long anything that is coming may take, in milliseconds. */
export const PATIENCE = 120_000;

/** How long a test, or what prepares it, may take: several things that come one after another. */
export const WHOLE = 300_000;
