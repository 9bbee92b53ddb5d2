// Compares two texts line by line.

/** Above this the longest common subsequence takes too long: all lines of the middle count as changed. */
const MOST_CELLS = 4_000_000;

/** Returns rows [before, after, kind] with kind `same` or `changed`; a missing side is undefined. */
export function differences(before, after) {
  const a = before === '' ? [] : before.split('\n');
  const b = after === '' ? [] : after.split('\n');
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start += 1;
  let end = 0;
  while (
    end < a.length - start &&
    end < b.length - start &&
    a[a.length - 1 - end] === b[b.length - 1 - end]
  )
    end += 1;
  const rows = a.slice(0, start).map((line) => [line, line, 'same']);
  rows.push(...middle(a.slice(start, a.length - end), b.slice(start, b.length - end)));
  rows.push(...a.slice(a.length - end).map((line) => [line, line, 'same']));
  return rows;
}

function middle(a, b) {
  if (a.length * b.length > MOST_CELLS) return pair(a, b);
  const width = b.length + 1;
  const lengths = new Uint32Array((a.length + 1) * width);
  for (let i = a.length - 1; i >= 0; i -= 1) {
    for (let j = b.length - 1; j >= 0; j -= 1) {
      lengths[i * width + j] =
        a[i] === b[j]
          ? lengths[(i + 1) * width + j + 1] + 1
          : Math.max(lengths[(i + 1) * width + j], lengths[i * width + j + 1]);
    }
  }
  const rows = [];
  let [i, j] = [0, 0];
  let removed = [];
  let added = [];
  const flush = () => {
    rows.push(...pair(removed, added));
    removed = [];
    added = [];
  };
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) {
      flush();
      rows.push([a[i], b[j], 'same']);
      i += 1;
      j += 1;
    } else if (
      j >= b.length ||
      (i < a.length && lengths[(i + 1) * width + j] >= lengths[i * width + j + 1])
    ) {
      removed.push(a[i]);
      i += 1;
    } else {
      added.push(b[j]);
      j += 1;
    }
  }
  flush();
  return rows;
}

/** Puts removed and added lines side by side. */
function pair(removed, added) {
  return Array.from({ length: Math.max(removed.length, added.length) }, (_, at) => [
    removed[at],
    added[at],
    'changed',
  ]);
}
