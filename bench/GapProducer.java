// What bench_gap measures, of Kafka: one record after the other with acks=all, each sent when the one before is acknowledged; a line for every
// gap between two acknowledgements that is longer than a threshold.
//   kafka.sh tool bench/GapProducer.java SERVERS TOPIC THRESHOLD_MS
import java.util.*;
import org.apache.kafka.clients.producer.*;

public class GapProducer {
  public static void main(String[] a) throws Exception {
    double threshold = Double.parseDouble(a[2]);
    Properties p = new Properties();
    p.put("bootstrap.servers", a[0]);
    p.put("acks", "all");
    p.put("linger.ms", "0");
    p.put("key.serializer", "org.apache.kafka.common.serialization.ByteArraySerializer");
    p.put("value.serializer", "org.apache.kafka.common.serialization.ByteArraySerializer");
    byte[] value = new byte[100];
    Arrays.fill(value, (byte) 'a');
    long last = 0;
    try (Producer<byte[], byte[]> producer = new KafkaProducer<>(p)) {
      for (;;) {
        producer.send(new ProducerRecord<>(a[1], 0, null, value)).get();
        long now = System.nanoTime();
        if (last != 0 && now - last > threshold * 1e6) {
          System.out.printf("%.1f%n", (now - last) / 1e6);
          System.out.flush();
        }
        last = now;
      }
    }
  }
}
