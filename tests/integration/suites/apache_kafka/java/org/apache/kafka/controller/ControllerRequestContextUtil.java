package org.apache.kafka.controller;

import org.apache.kafka.common.message.RequestHeaderData;
import org.apache.kafka.common.security.auth.KafkaPrincipal;

import java.util.OptionalLong;

/** In the place of a class of Kafka's that is in no published jar: whom a test asks a controller as. */
public class ControllerRequestContextUtil {
    public static final ControllerRequestContext ANONYMOUS_CONTEXT = new ControllerRequestContext(new RequestHeaderData(), KafkaPrincipal.ANONYMOUS, OptionalLong.empty());
}
