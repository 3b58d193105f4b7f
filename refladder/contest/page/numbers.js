// Statistics of the page. Each function states its source; tests compare them with scipy and with counts by hand.

export const mean = (values) => (values.length ? values.reduce((sum, each) => sum + each, 0) / values.length : null);
const NORMAL = 1.959963984540054; // 97.5 % quantile of the normal distribution

function logGamma(x) { // Lanczos, g = 7
  const parts = [676.5203681218851, -1259.1392167224028, 771.32342877765313, -176.61502916214059, 12.507343278686905,
    -0.13857109526572012, 9.9843695780195716e-6, 1.5056327351493116e-7];
  if (x < 0.5) return Math.log(Math.PI / Math.sin(Math.PI * x)) - logGamma(1 - x);
  const sum = parts.reduce((total, part, index) => total + part / (x + index), 0.99999999999980993);
  const t = x + 6.5;
  return 0.5 * Math.log(2 * Math.PI) + (x - 0.5) * Math.log(t) - t + Math.log(sum);
}

// Regularised incomplete beta function, by Lentz's continued fraction (Numerical Recipes, section 6.4).
export function incompleteBeta(a, b, x) {
  if (x <= 0) return 0;
  if (x >= 1) return 1;
  if (x > (a + 1) / (a + b + 2)) return 1 - incompleteBeta(b, a, 1 - x);
  const tiny = 1e-300;
  let c = 1;
  let d = 1 / Math.max(1 - ((a + b) * x) / (a + 1), tiny);
  let value = d;
  for (let m = 1; m < 300; m += 1) {
    for (const part of [
      (m * (b - m) * x) / ((a + 2 * m - 1) * (a + 2 * m)),
      (-(a + m) * (a + b + m) * x) / ((a + 2 * m) * (a + 2 * m + 1)),
    ]) {
      d = 1 + part * d;
      d = 1 / (Math.abs(d) < tiny ? tiny : d);
      c = 1 + part / c;
      c = Math.abs(c) < tiny ? tiny : c;
      value *= d * c;
    }
    if (Math.abs(d * c - 1) < 1e-15) break;
  }
  return (value * Math.exp(logGamma(a + b) - logGamma(a) - logGamma(b) + a * Math.log(x) + b * Math.log1p(-x))) / a;
}

function bisect(low, high, isBelow) {
  for (let step = 0; step < 200; step += 1) {
    const middle = (low + high) / 2;
    if (middle === low || middle === high) break;
    if (isBelow(middle)) low = middle;
    else high = middle;
  }
  return (low + high) / 2;
}

const quantiles = new Map(); // 97.5 % quantile of Student's t by degrees of freedom
export function tQuantile(freedom) {
  const key = Math.round(freedom * 1e6);
  if (!quantiles.has(key)) {
    const tail = (t) => incompleteBeta(freedom / 2, 0.5, freedom / (freedom + t * t)) / 2;
    quantiles.set(key, bisect(0, 1e6, (t) => tail(t) > 0.025));
  }
  return quantiles.get(key);
}

// 95 % interval of sum(points) / sum(counts) over rows whose trials may depend on each other: the same as
// refladder.statistics.shares.share_intervals (Korn and Graubard 1998; Newcombe 1998, method 4).
export function shareInterval(points, counts) {
  const used = counts.map((count, row) => [points[row], count]).filter(([, count]) => count > 0);
  const trials = used.reduce((total, [, count]) => total + count, 0);
  if (used.length < 2) return null;
  const share = used.reduce((total, [point]) => total + point, 0) / trials;
  let [spread, fourth, squares] = [0, 0, 0];
  for (const [point, count] of used) {
    let residual = point - share * count;
    if (Math.abs(residual) <= 1e-9 * count) residual = 0;
    const square = (residual * residual) / (1 - count / trials);
    spread += square;
    fourth += square * square;
    squares += count * count;
  }
  const least = (trials * trials) / squares;
  let effective = share <= 1e-9 || share >= 1 - 1e-9 ? least : trials;
  if (spread > 0) {
    const kurtosis = (used.length * fourth) / (spread * spread);
    const most = used.length - 1;
    const freedom = kurtosis > 1 ? Math.min(Math.max((2 * used.length) / (kurtosis - 1) - 1, 1), most) : most;
    effective = ((share * (1 - share) * trials * trials) / spread) * (NORMAL / tQuantile(freedom)) ** 2;
  }
  return wilson(share, Math.max(effective, least));
}

function wilson(share, trials) {
  const square = NORMAL ** 2;
  const low = (part) => {
    const least = Math.max(part, 1 / trials);
    const inner = square - 1 / trials + 4 * trials * least * (1 - least) + 4 * least - 2;
    const end = (2 * trials * least + square - NORMAL * Math.sqrt(Math.max(inner, 0)) - 1) / (2 * (trials + square));
    return Math.max(end, 0) * Math.min(part * trials, 1);
  };
  return [low(share), 1 - low(1 - share)];
}

// Lower confidence bound of a share, exact (Clopper and Pearson 1934); `confidence` is one-sided.
export function exactLowerBound(good, labels, confidence) {
  if (!labels || !good) return 0;
  return bisect(0, 1, (share) => incompleteBeta(good, labels - good + 1, share) < 1 - confidence);
}

// Cohen's kappa (1960) of pairs of categories; null where chance alone would always agree.
export function kappa(pairs) {
  if (!pairs.length) return null;
  const categories = [...new Set(pairs.flat())];
  const share = (side, category) => pairs.filter((pair) => pair[side] === category).length / pairs.length;
  const observed = pairs.filter(([a, b]) => a === b).length / pairs.length;
  const chance = categories.reduce((total, each) => total + share(0, each) * share(1, each), 0);
  return chance > 1 - 1e-12 ? null : (observed - chance) / (1 - chance);
}

// Krippendorff's alpha (2011, "Computing Krippendorff's alpha-reliability") of units, each a list of values.
// `distance` is nominal (0 or 1) or interval (squared difference). Null where all values are equal.
export function alpha(units, distance) {
  const paired = units.filter((unit) => unit.length > 1);
  const values = paired.flat();
  if (values.length < 2) return null;
  let observed = 0;
  for (const unit of paired) observed += spread(unit, distance) / (unit.length - 1);
  const expected = spread(values, distance) / (values.length - 1);
  return expected > 0 ? 1 - observed / expected : null;
}

// Sum of distances over all ordered pairs of values.
function spread(values, distance) {
  if (distance === "interval") {
    const mean = values.reduce((total, value) => total + value, 0) / values.length;
    return 2 * values.length * values.reduce((total, value) => total + (value - mean) ** 2, 0);
  }
  const counts = new Map();
  values.forEach((value) => counts.set(value, (counts.get(value) ?? 0) + 1));
  return [...counts.values()].reduce((total, count) => total + count * (values.length - count), 0);
}

function ranks(values) {
  const order = values.map((_, index) => index).sort((a, b) => values[a] - values[b]);
  const result = new Array(values.length);
  for (let start = 0; start < order.length;) {
    let end = start;
    while (end < order.length && values[order[end]] === values[order[start]]) end += 1;
    for (let index = start; index < end; index += 1) result[order[index]] = (start + end - 1) / 2;
    start = end;
  }
  return result;
}

// Spearman's correlation of pairs, with mean ranks for ties; null where one side is constant.
export function spearman(pairs) {
  const sides = [0, 1].map((side) => ranks(pairs.map((pair) => pair[side])));
  const middle = (pairs.length - 1) / 2;
  const sum = (f) => pairs.reduce((total, _, index) => total + f(index), 0);
  const product = sum((index) => (sides[0][index] - middle) * (sides[1][index] - middle));
  const scale = Math.sqrt(sum((i) => (sides[0][i] - middle) ** 2) * sum((i) => (sides[1][i] - middle) ** 2));
  return scale > 0 ? product / scale : null;
}

// 95 % interval of a coefficient by leaving out one row at a time, with Student's t on Fisher's scale: the same as
// refladder.statistics.intervals.jackknife_interval. `rows[i]` is the row of `items[i]`. Null where it is not defined.
export function jackknife(items, rows, coefficient) {
  const value = coefficient(items);
  const names = [...new Set(rows)];
  if (value === null || names.length < 2 || Math.abs(value) >= 1) return null;
  const groups = Math.min(names.length, 1000);
  const group = new Map(names.map((name, index) => [name, index % groups]));
  let sum = 0;
  let largest = 0;
  for (let left = 0; left < groups; left += 1) {
    const rest = coefficient(items.filter((_, index) => group.get(rows[index]) !== left));
    if (rest === null) return null;
    sum += (rest - value) ** 2;
    largest = Math.max(largest, Math.abs(rest - value));
  }
  if (largest <= 1e-12) return null;
  const distance = (tQuantile(groups - 1) * Math.sqrt(((groups - 1) / groups) * sum)) / (1 - value ** 2);
  return [Math.tanh(Math.atanh(value) - distance), Math.tanh(Math.atanh(value) + distance)];
}
